"""ACLs that do not do what was acknowledged: rights that stay, and rules that get lost."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tests.simulation.planted.stage import Case, at_rest, pause, replaced

from ottla.metadata import snapshot
from ottla.metadata.acl_index import AclIndex
from ottla.metadata.acls import AclImage, AclsImage, acls_to_records
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.standard_authorizer import StandardAuthorizer
from ottla.protocol.generated.metadata_records import AccessControlEntryRecord
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.logins import SETTINGS
from ottla.simulation.workloads.guarded import Guarded


def grants_outlive_changes() -> Iterator[None]:
    """What a connection remembers stays good: the epoch of the ACLs does not move."""
    real = StandardAuthorizer.changed

    def changed(self: StandardAuthorizer, image: MetadataImage, delta: MetadataDelta) -> None:
        epoch = self.epoch
        real(self, image, delta)
        self.epoch = epoch

    return replaced(StandardAuthorizer, "changed", changed)


def removals_forget_others() -> Iterator[None]:
    """As CVE-2024-27309: where one of several ACLs goes, only one of the others stays in force."""
    real = AclIndex.apply

    def apply(self: AclIndex, changed: Mapping[bytes, AclImage | None]) -> None:
        gone = [self._acls[each] for each in changed if each in self._acls and not changed[each]]
        real(self, changed)
        for acl in gone:
            same = [each for each, other in self._acls.items() if other[:3] == acl[:3]]
            real(self, dict.fromkeys(same[1:]))

    return replaced(AclIndex, "apply", apply)


def snapshots_forget_an_acl() -> Iterator[None]:
    def forgetful(acls: AclsImage) -> list[AccessControlEntryRecord]:
        return acls_to_records(acls)[:-1]

    return replaced(snapshot, "acls_to_records", forgetful)


class Growing(Guarded):
    """ACLs only come, and are told at the end."""

    REMOVES: ClassVar[bool] = False

    async def conclude(self) -> None:
        await self._list_everywhere(self._admin)


async def none(_cluster: SimulatedCluster) -> None:
    """All goes well."""


async def restarts(cluster: SimulatedCluster) -> None:
    """Each node in turn begins again with its newest snapshot."""
    chance = cluster.part("trouble")
    for node in list(cluster.nodes.values()) * 2:
        await pause(cluster, chance.between(2.0, 5.0))
        node.kill()
        await pause(cluster, 0.5)
        node.start()
        await at_rest(cluster)


OUTLIVING_GRANT = Case(
    name="grant that outlives its ACL",
    plant=contextmanager(grants_outlive_changes),
    trouble=none,
    workload=Guarded,
    finds=frozenset({"unauthorized-access"}),
    settings=SETTINGS,
)
CVE_2024_27309 = Case(
    name="CVE-2024-27309",
    plant=contextmanager(removals_forget_others),
    trouble=none,
    workload=Guarded,
    finds=frozenset({"refused-access", "unauthorized-access", "resurrected-acl"}),
    settings=SETTINGS,
)
FORGETFUL_SNAPSHOT = Case(
    name="snapshot that forgets an ACL",
    plant=contextmanager(snapshots_forget_an_acl),
    trouble=restarts,
    workload=Growing,
    finds=frozenset({"lost-acl", "refused-access"}),
    seconds=90.0,
    settings={**SETTINGS, "metadata.log.max.record.bytes.between.snapshots": "2000"},
)
