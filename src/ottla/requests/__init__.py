"""How requests are served, whatever they ask: what all handlers have in common.

``dispatch`` is the way in, and finds handlers by the names in ``table``. Counterpart in Apache
Kafka: ``RequestHandlerHelper``, ``AuthHelper``, and the common parts of ``KafkaApis``.

Invariant: nothing is handled before what its contract needs has been asked of the authorizer.
"""
