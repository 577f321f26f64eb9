"""One module per API, which exports its contract: ask one service, shape the response.

``requests.dispatch`` is the way in; handlers ask the services that they are given. Counterpart in
Apache Kafka: ``KafkaApis`` and ``ControllerApis``.

Invariant: what ApiVersions advertises is exactly what ``requests.table`` has.
"""
