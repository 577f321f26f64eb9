"""Names for bare integers and strings, so that an offset is never passed for an epoch."""

from typing import NewType

NodeId = NewType("NodeId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
Offset = NewType("Offset", int)
PartitionId = NewType("PartitionId", int)
ProducerId = NewType("ProducerId", int)
TopicId = NewType("TopicId", bytes)
GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)

NO_NODE = NodeId(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_OFFSET = Offset(-1)
