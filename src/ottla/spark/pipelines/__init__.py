"""Declared pipelines: topics to tables, tables to views, and back to topics, kept running.

Definitions are those of Spark's Declarative Pipelines. Counterpart in the Apache world:
``spark-pipelines run``, which runs the same files once.

Invariant: whatever dies, a row of a topic is once in each table and each topic behind it.
"""
