"""Logs of both tiers looked at from outside: what there is, and whether it is sound.

Whatever is damaged is a :class:`~ottla.inspection.segment.Problem` and never an exception.
``ottla log`` shows it, ``ottla jobs verify-tier`` does it on Spark. Counterpart in Apache Kafka:
``kafka.tools.DumpLogSegments``, which stops where a log is damaged. Invariant: nothing is changed.
"""
