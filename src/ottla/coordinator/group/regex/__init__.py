"""Regular expressions in RE2's syntax, matched against topic names without ever going back.

For members that subscribe by a regular expression. Counterpart in Apache Kafka: the re2j library.

Invariant: the work for one name is bounded by its length times the size of the expression.
"""
