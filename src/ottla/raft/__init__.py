"""The quorum that keeps the metadata log: votes, epochs, the high watermark, snapshots.

Counterpart in Apache Kafka: ``raft`` (KafkaRaftClient, QuorumState).

Invariant: what is committed was synced to disk by a majority of the voters, and stays.
"""
