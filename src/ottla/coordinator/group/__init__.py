"""The group coordinator: membership, generations and committed offsets on ``__consumer_offsets``.

``service.GroupService`` is the way in; it runs on ``coordinator.runtime``. Counterpart in Apache
Kafka: GroupCoordinatorService, GroupCoordinatorShard and what they hold.

Invariant: what a restart must remember is in a record; all else may go with the process.
"""
