"""One module per API, which exports its contract: ask one service, shape the answer.

Called by ``server`` through :mod:`ottla.handlers.dispatch`; calls the services it is given.
Counterpart in Apache Kafka: ``KafkaApis`` and ``ControllerApis``. Invariant: what ApiVersions
advertises is exactly what ``table`` has.
"""
