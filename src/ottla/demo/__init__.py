"""The demo: a cluster, a shop whose events never end, and a pipeline on Spark that follows them.

The pipeline, of ``spark.pipelines``, runs in a process of its own. Counterpart in Apache Kafka:
none; the nearest is its quickstart.

Invariant: whatever becomes of this process, all that it started ends with it, and a later run goes
on where it stopped.
"""
