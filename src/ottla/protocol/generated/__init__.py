"""One module per API or family of records, written by ``tools/protocolgen``.

Called by whoever has a message to read or to write; calls ``primitives``. Counterpart in Apache
Kafka: the ``*Data`` classes that its generator makes. Invariant: nobody edits these files.
"""
