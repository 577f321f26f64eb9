"""Values that every package speaks of.

Counterpart in Apache Kafka: ``clients/common`` and ``server-common``.

Invariant: nothing here does I/O, keeps a clock or draws lots by itself.
"""
