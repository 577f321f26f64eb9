"""Where tiered storage meets threads, disks and object stores.

Counterpart in Apache Kafka: ``RemoteLogManager`` and implementations of ``RemoteStorageManager``.

Invariant: nothing here decides; what is copied, read or removed is said by a core.
"""
