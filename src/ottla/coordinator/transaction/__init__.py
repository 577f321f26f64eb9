"""The transaction coordinator: which producer may write under a transactional id, and how a
transaction ends.

``service.TransactionService`` is the way in; it runs on ``coordinator.runtime``, over
``__transaction_state``. Counterpart in Apache Kafka: TransactionCoordinator,
TransactionStateManager and TransactionMarkerChannelManager.

Invariant: a transaction whose end is in the log is ended on all its partitions, however often this
broker stops meanwhile, and before that its transactional id begins no other.
"""
