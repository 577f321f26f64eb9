"""What a request to the controller makes: records to be written, and the answer to give then."""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from ottla.common.errors import PolicyViolation
from ottla.metadata.records import MetadataRecord

R = TypeVar("R")

RECORDS_MAX: Final = 10_000
"""The most records that one request may write at once."""


@dataclass(slots=True)
class ControllerResult(Generic[R]):
    """The answer holds once all the records are committed; without records it holds already."""

    response: R
    records: list[MetadataRecord] = field(default_factory=list)
    atomic: bool = True
    """Whether the records must go into one batch."""


def check_records(records: list[MetadataRecord]) -> None:
    if len(records) > RECORDS_MAX:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
