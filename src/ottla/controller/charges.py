"""What a client pays for partitions that are made or go (``controller_mutation_rate``, KIP-599)."""

from collections.abc import Callable
from typing import TypeAlias

Charging: TypeAlias = Callable[[int], None]
"""Called with a number of partitions, before anything is made of them.

ThrottlingQuotaExceeded when there are to be none now; each topic is charged for itself.
"""


def free_of_charge(_partitions: int) -> None:
    """For the node itself."""
