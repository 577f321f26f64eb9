"""Topics as Spark tables and back: a data source in Python, its jobs and its pipelines.

Executors import nothing of the server. Counterpart in the Apache world: the spark-sql-kafka
connector, whose options, schema and offsets are kept.

Invariant: what a query returns is exactly what a consumer of the same offsets would get.
"""
