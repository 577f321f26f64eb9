"""The demo: a cluster, and a shop whose events never end.

Called by ``ottla demo``; calls ``server`` for the nodes and ``client`` to write and read.
Counterpart in Apache Kafka: none; the nearest is its quickstart. Invariant: whatever becomes of
this process, all that it started ends with it, and a later run goes on where it stopped.
"""
