"""The controller of the cluster: requests in, metadata records and answers out.

Counterpart in Apache Kafka: ``metadata/controller`` (QuorumController and its managers).

Invariant: state changes only by replaying records, and an answer leaves only after its commit.
"""
