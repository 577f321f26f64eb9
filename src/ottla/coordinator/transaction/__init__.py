"""The transaction coordinator: who may write under a transactional id, and how a transaction ends.

Called by ``handlers`` through ``service.TransactionService``; runs on ``coordinator.runtime``, over
``__transaction_state``. Counterpart in Apache Kafka: TransactionCoordinator,
TransactionStateManager and TransactionMarkerChannelManager.
Invariant: a transaction whose end is in the log is ended on all its partitions, however often this
broker stops meanwhile, and before that its transactional id begins no other.
"""
