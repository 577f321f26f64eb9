"""The largest numbers of Java's types, which Kafka's defaults use for "no bound"."""

from typing import Final

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
DOUBLE_MAX: Final = 1.7976931348623157e308
