"""The ``ottla`` command: one module for each noun, loaded when it is named.

Counterpart in Apache Kafka: bin/kafka-*.sh.

Invariant: data goes to standard output in a form that was asked for, talk to standard error; the
exit code is 0 for success, 1 for what the cluster refused, 2 for what was asked wrongly.
"""
