"""The composition root: a node of the cluster, put together from the packages below.

Counterpart in Apache Kafka: ``KafkaRaftServer``, ``BrokerServer``, ``ControllerServer``.

Invariant: nothing below this package knows which environment (operating system or simulator) it
runs in.
"""
