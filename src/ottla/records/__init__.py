"""Record batches: reading, making, checking and compressing them.

Counterpart in Apache Kafka: ``clients/common/record`` and ``LogValidator``.

Invariant: no length in a batch is believed before it is compared with the bytes that are there.
"""
