"""Keys and values as columns: JSON, Avro and Protobuf to Arrow and back.

Schemas come from files or from ``ottla.spark.registry``. They run on executors. Counterpart in the
Apache world: ``from_json``, ``from_avro``, ``from_protobuf`` of Spark and the serializers of
Confluent's registry, whose framing is kept.

Invariant: bytes that do not fit their schema make a fault with a reason, never an exception and
never a wrong row.
"""
