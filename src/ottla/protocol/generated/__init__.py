"""One module per API or family of records, written by ``tools/protocolgen``.

Counterpart in Apache Kafka: the ``*Data`` classes that its generator makes. Invariant: nobody edits
these files.
"""
