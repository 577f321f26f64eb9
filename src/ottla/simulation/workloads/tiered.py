"""Topics whose older segments are in the remote store: kept for ever, or for a while."""

from typing import ClassVar, Final

from ottla.simulation.history import Policy
from ottla.simulation.workloads.records import Records
from ottla.simulation.workloads.workload import Workload

_SMALL: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "700",
    "local.retention.ms": "1000",
}


class TieredRecords(Records):
    """Small segments, which soon are in the remote store only."""

    NAME: ClassVar[str] = "tiered"
    CONFIGS: ClassVar[dict[str, str]] = {**_SMALL, "retention.ms": "-1"}


class ExpiringTieredRecords(Records):
    """The same, and after a while they go from there too, by age and by size."""

    NAME: ClassVar[str] = "tiered-expiring"
    POLICY: ClassVar[Policy] = Policy.EXPIRE
    CONFIGS: ClassVar[dict[str, str]] = {
        **_SMALL,
        "retention.ms": "15000",
        "retention.bytes": "20000",
    }


TIERED: Final[dict[str, type[Workload]]] = {
    kind.NAME: kind for kind in (TieredRecords, ExpiringTieredRecords)
}
