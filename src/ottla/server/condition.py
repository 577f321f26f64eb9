"""How a node or a machine is, in words: what status pages and supervisors tell of it."""

from typing import NamedTuple


class Condition(NamedTuple):
    """How something is; well when there are no reasons against it."""

    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        return not self.reasons
