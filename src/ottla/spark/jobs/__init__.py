"""Jobs on the log itself: each maps a function over segments or ranges, on Spark or right here.

Counterpart in Apache Kafka: none.

Invariant: a task may be run twice, and leaves what one run does.
"""
