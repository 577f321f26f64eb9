"""Tables that streaming queries write exactly once: Parquet, Delta and Iceberg.

Data files are written by the executors out of Arrow; the driver commits them. Counterpart in Apache
Kafka: none.

Invariant: a batch of a writer is in a table once or not at all; readers see committed files only.
"""
