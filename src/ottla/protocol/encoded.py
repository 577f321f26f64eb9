"""The body of a response that is encoded already."""

from collections.abc import Sequence
from typing import Final


class Encoded:
    """Parts that make up the body; they may belong to many responses at the same time."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts: Final = parts
