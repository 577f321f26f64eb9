"""What kind of a cluster, with which settings and faults: drawn from the seed, or chosen by name.

By default each seed has its own subset of all faults ("swarm"): a run in which only two things go
wrong finds what one drowns in which all do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.common.chance import Chance
from ottla.simulation import logins
from ottla.simulation.cluster import Roles
from ottla.simulation.connection_faults import LATER_KINDS
from ottla.simulation.faults import KINDS, RARE
from ottla.simulation.machines import MACHINE
from ottla.simulation.node import DIRECTORY
from ottla.simulation.tier import draw_tier
from ottla.simulation.workloads.administration import Administration
from ottla.simulation.workloads.guarded import Guarded
from ottla.simulation.workloads.lossy import LossyRecords
from ottla.simulation.workloads.mix import ALL, KINDS_MAX, SETTINGS
from ottla.simulation.workloads.quotas import Quotas
from ottla.simulation.workloads.records import CompactedRecords, Records
from ottla.simulation.workloads.tokens import TOKEN_SETTINGS, DelegationTokens

SWARM: Final = "swarm"
MACHINES: Final = "machines"
SCENARIOS: Final[dict[str, tuple[str, ...]]] = {
    SWARM: tuple(kind for kind in KINDS if kind not in RARE),
    "all": tuple(KINDS),
    "calm": (),
    "kills": ("kill", "kill-all"),
    "power": ("power", "kill"),
    "network": ("isolate", "halves", "ring", "one-way", "delay", "slow-link"),
    "pauses": ("pause", "skew"),
    "disks": ("full-disk", "bad-disk", "slow-disk", "new-disk", *RARE),
    "restarts": ("rolling", "kill"),
    "voters": ("voters", "kill", "isolate"),
    "connections": tuple(LATER_KINDS),
    MACHINES: (MACHINE, MACHINE, "kill", "isolate"),
}
"""The faults of each, by name."""
SECONDS: Final = 45.0
BROKERS: Final = (3, 3, 3, 4)
"""With one more than replicas a reassignment has somewhere to go; it costs a third more."""
MACHINES_COUNT: Final = 3
"""As many as there are voters; with two processes each there are more brokers than replicas."""
COMPACTED: Final = CompactedRecords.NAME
LOGS_ONE_IN: Final = 8
"""How rarely each setting of logs is another than its default."""
TWO_DIRECTORIES: Final = f"{DIRECTORY},{DIRECTORY}-2"


QUORUM_BACKOFF_MS: Final = ("20", "100", "100", "250")
"""Nodes that know no leader ask each voter so often: with Kafka's 20 that is most of such a run."""


@dataclass(frozen=True)
class Scenario:
    name: str
    faults: tuple[str, ...]
    seconds: float
    """How long faults go on."""
    brokers: int = 3
    roles: Roles = "combined"
    processes: int = 1
    """Of each machine; ``brokers`` counts the machines then."""
    static_quorum: bool = False
    clock_rates: tuple[float, float] = (1.0, 1.0)
    workloads: tuple[str, ...] = ()
    leisure: float = 1.0
    settings: dict[str, str] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    store: str = ""
    """The mood of the remote store, where there is one."""
    loses_indexes: bool = False
    """Whether nodes start on indexes that have lost entries."""

    @property
    def has_two_directories(self) -> bool:
        return self.settings.get("log.dirs") == TWO_DIRECTORIES

    def __str__(self) -> str:
        quorum = "static" if self.static_quorum else "dynamic"
        faults = ", ".join(self.faults) or "no faults"
        cluster = f"{self.brokers} brokers, {self.roles}, {quorum} quorum"
        if self.processes > 1:
            cluster = f"{self.brokers} machines of {self.processes} brokers, {quorum} quorum"
        if self.has_two_directories:
            cluster = f"{cluster}, two directories each"
        if self.store:
            cluster = f"{cluster}, a remote store that is {self.store}"
        if self.loses_indexes:
            cluster = f"{cluster}, indexes that get lost"
        return f"{self.name}: {cluster}; {faults}; {', '.join(self.workloads)}"


def draw_scenario(seed: int, name: str = SWARM, seconds: float | None = None) -> Scenario:
    chance = Chance(int.from_bytes(f"{seed}/scenario".encode()))
    faults = SCENARIOS[name]
    if name == SWARM:
        faults = _subset(chance, faults, 1 + chance.below(5)) + _rare(seed)
    processes = _processes(seed, name)
    if processes > 1 and name == SWARM:
        faults = (*faults, MACHINE)
    # Without eligible replicas the last of an ISR may lead with less than was committed.
    is_lossy = not {"power", "new-disk", MACHINE}.isdisjoint(faults)
    static = "voters" not in faults and chance.below(4) == 0
    workloads = _subset(chance, list(ALL), 1 + chance.below(KINDS_MAX))
    if workloads == (Administration.NAME,):
        # It changes things, and says nothing of records.
        workloads = (*workloads, Records.NAME)
    tier = draw_tier(seed)
    unclean = _unclean(seed)
    guarded = _guarded(seed)
    tokens = () if guarded else _tokens(seed)
    cleaner = {"log.cleaner.enable": "true" if COMPACTED in workloads else "false"}
    return Scenario(
        name=name,
        faults=(*faults, *_later_faults(seed)) if name == SWARM else faults,
        seconds=SECONDS if seconds is None else seconds,
        roles="separate" if chance.below(4) == 0 and processes == 1 else "combined",
        processes=processes,
        static_quorum=static,
        clock_rates=(0.99, 1.01) if chance.below(2) else (1.0, 1.0),
        workloads=(*workloads, *tier.workloads, *unclean, *guarded, *tokens, *_quotas(seed)),
        leisure=chance.choose((4.0, 8.0, 16.0)),
        settings={
            **SETTINGS,
            **_settings(chance),
            **cleaner,
            **_directories(seed),
            **_coordinators(seed),
            **_flushes(seed),
            **_logs(seed),
            **_connections(seed),
            **tier.settings,
            **(logins.SETTINGS if guarded else {}),
            **({"unclean.leader.election.interval.ms": "3000"} if unclean else {}),
            **(TOKEN_SETTINGS if tokens else {}),
        },
        features={"eligible.leader.replicas.version": int(chance.below(4) > 0 or is_lossy)},
        brokers=_brokers(chance, workloads) if processes == 1 else MACHINES_COUNT,
        store=tier.store,
        loses_indexes=name == SWARM and _loses_indexes(seed),
    )


def _subset(chance: Chance, items: Sequence[str], count: int) -> tuple[str, ...]:
    left = list(items)
    return tuple(left.pop(chance.below(len(left))) for _ in range(count))


def _rare(seed: int) -> tuple[str, ...]:
    chance = Chance(int.from_bytes(f"{seed}/rare faults".encode()))
    return tuple(kind for kind in RARE if chance.below(6) == 0)


def _directories(seed: int) -> dict[str, str]:
    """A quarter of all have two log directories per node, of which one may fail."""
    chance = Chance(int.from_bytes(f"{seed}/directories".encode()))
    return {"log.dirs": TWO_DIRECTORIES} if chance.below(4) == 0 else {}


def _processes(seed: int, name: str) -> int:
    """A tenth of all have machines of two processes each, of which one may be lost as a whole."""
    chance = Chance(int.from_bytes(f"{seed}/processes".encode()))
    return 2 if name == MACHINES or (name == SWARM and chance.below(10) == 0) else 1


def _brokers(chance: Chance, workloads: Sequence[str]) -> int:
    return chance.choose(BROKERS) if Administration.NAME in workloads else BROKERS[0]


def _loses_indexes(seed: int) -> bool:
    chance = Chance(int.from_bytes(f"{seed}/indexes".encode()))
    return chance.below(4) == 0


def _unclean(seed: int) -> tuple[str, ...]:
    """An eighth of all have a topic too whose leaders may be elected uncleanly."""
    chance = Chance(int.from_bytes(f"{seed}/unclean".encode()))
    return (LossyRecords.NAME,) if chance.below(8) == 0 else ()


def _guarded(seed: int) -> tuple[str, ...]:
    """A quarter of all have an authorizer, and users whose rights change."""
    chance = Chance(int.from_bytes(f"{seed}/guarded".encode()))
    return (Guarded.NAME,) if chance.below(4) == 0 else ()


def _tokens(seed: int) -> tuple[str, ...]:
    """A tenth of all others have delegation tokens, which an authorizer would hide from users."""
    chance = Chance(int.from_bytes(f"{seed}/tokens".encode()))
    return (DelegationTokens.NAME,) if chance.below(10) == 0 else ()


def _quotas(seed: int) -> tuple[str, ...]:
    """In an eighth of all, clients are limited by quotas that come and go."""
    chance = Chance(int.from_bytes(f"{seed}/quotas".encode()))
    return (Quotas.NAME,) if chance.below(8) == 0 else ()


def _later_faults(seed: int) -> tuple[str, ...]:
    """A quarter of all have one of these too."""
    chance = Chance(int.from_bytes(f"{seed}/later faults".encode()))
    return (chance.choose(tuple(LATER_KINDS)),) if chance.below(4) == 0 else ()


def _connections(seed: int) -> dict[str, str]:
    """Idle connections are closed within a run in half of all.

    In a quarter the metadata log goes in small parts from node to node, and to its followers.
    """
    chance = Chance(int.from_bytes(f"{seed}/connections".encode()))
    idle_ms = chance.choose(("600000", "600000", "5000", "15000"))
    fetched = {"controller.quorum.fetch.max.bytes": "500"} if chance.below(4) == 0 else {}
    again_ms = chance.choose(QUORUM_BACKOFF_MS)
    return {
        "connections.max.idle.ms": idle_ms,
        "controller.quorum.retry.backoff.ms": again_ms,
        **fetched,
    }


def _flushes(seed: int) -> dict[str, str]:
    """When records are flushed, and files of what is deleted go: at once in half of all."""
    chance = Chance(int.from_bytes(f"{seed}/flushes".encode()))
    settings = {"log.segment.delete.delay.ms": chance.choose(("0", "0", "500", "60000"))}
    if chance.below(2):
        settings["log.flush.interval.messages"] = chance.choose(("1", "3", "20"))
    if chance.below(4) == 0:
        settings["log.flush.interval.ms"] = chance.choose(("10", "200", "2000"))
    return settings


def _logs(seed: int) -> dict[str, str]:
    """How brokers keep and fetch logs, where topics do not say; most have the defaults."""
    chance = Chance(int.from_bytes(f"{seed}/logs".encode()))
    choices = {
        "compression.type": ("zstd", "gzip"),
        "log.message.timestamp.type": ("LogAppendTime",),
        "log.roll.ms": (5_000, 20_000),
        "min.insync.replicas": (1, 3),
        "num.replica.fetchers": (2, 3),
    }
    return {
        key: str(chance.choose(values))
        for key, values in choices.items()
        if chance.below(LOGS_ONE_IN) == 0
    }


def _coordinators(seed: int) -> dict[str, str]:
    """What coordinators wait for, and how long.

    In a quarter of all the log of every coordinator takes records only while all of its replicas
    are in sync, so that it takes none for longer than their timeouts when one broker is away.
    """
    chance = Chance(int.from_bytes(f"{seed}/coordinators".encode()))
    choices = {
        "offsets.commit.timeout.ms": (500, 2_000, 5_000),
        "request.timeout.ms": (2_000, 10_000, 30_000),
        "group.consumer.assignment.interval.ms": (0, 1_000),
    }
    settings = {key: str(chance.choose(values)) for key, values in choices.items()}
    expiry = Chance(int.from_bytes(f"{seed}/expiry".encode()))
    if expiry.below(4) == 0:
        # Groups that have nothing go within a run, in the middle of whatever happens to them.
        settings["offsets.retention.check.interval.ms"] = expiry.choose(("100", "500", "2000"))
    if chance.below(4) == 0:
        settings |= {"min.insync.replicas": "3", "transaction.state.log.min.isr": "3"}
    return settings


def _settings(chance: Chance) -> dict[str, str]:
    """Settings within what people use, drawn so that short runs see their effects."""
    session_ms = chance.choose((3_000, 6_000, 9_000))
    choices = {
        "log.segment.bytes": (1 << 20,),
        "replica.lag.time.max.ms": (5_000, 10_000, 30_000),
        "replica.fetch.wait.max.ms": (500, 2_000, 4_000),
        "replica.fetch.max.bytes": (10_000, 1 << 20),
        "metadata.log.max.record.bytes.between.snapshots": (2_000, 20_000, 20 << 20),
        "metadata.max.idle.interval.ms": (0, 0, 500, 5_000),
        "metadata.max.retention.bytes": (4_000, 100 << 20),
        "internal.metadata.log.segment.bytes": (8_192, 8 << 20),  # no batch may be larger
        "controller.quorum.fetch.timeout.ms": (1_000, 2_000, 4_000),
        "controller.quorum.election.timeout.ms": (500, 1_000),
        "replica.high.watermark.checkpoint.interval.ms": (1_000, 5_000),
        "log.flush.offset.checkpoint.interval.ms": (1_000, 60_000),
        "max.incremental.fetch.session.cache.slots": (2, 1_000),
    }
    settings = {key: str(chance.choose(values)) for key, values in choices.items()}
    settings["broker.session.timeout.ms"] = str(session_ms)
    settings["broker.heartbeat.interval.ms"] = str(session_ms // 4)
    return settings
