"""The demo: a cluster, a shop whose events never end, and a pipeline on Spark that follows them.

Called by ``ottla demo``; calls ``server`` for the nodes, ``client`` to write and read, and
``spark.pipelines``, which runs in a process of its own. Counterpart in Apache Kafka: none; the
nearest is its quickstart. Invariant: whatever becomes of this process, all that it started ends
with it, and a later run goes on where it stopped.
"""
