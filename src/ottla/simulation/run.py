"""One seed, one run: a cluster under a workload, first with faults, then without.

In the safety phase faults come and go, and nothing that must never be may be seen. Then all is
healed, and in the liveness phase the cluster must come to rest: all brokers serve, all replicas are
in sync, and the workload gets on. At the end coordinators come to rest too, the histories of the
clients are checked, and all replicas are equal.
"""

import gc
import logging
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Final

from ottla.common.chance import Chance
from ottla.common.promise import Promise, run
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.simulation.checkers import coordinators
from ottla.simulation.checkers.facts import Anomaly
from ottla.simulation.checkers.metadata import MetadataChecker
from ottla.simulation.checkers.replicas import ReplicaChecker
from ottla.simulation.checkers.suite import check
from ottla.simulation.checkers.tier import TierChecker
from ottla.simulation.cluster import SimulatedCluster, Violation
from ottla.simulation.disk import lose_indexes
from ottla.simulation.history import History
from ottla.simulation.nemesis import Nemesis
from ottla.simulation.remote_store import MOODS
from ottla.simulation.scenario import SWARM, Scenario, draw_scenario
from ottla.simulation.workloads.mix import Mix
from ottla.simulation.workloads.tiered import TieredRecords

LIVENESS_SECONDS: Final = 180.0
"""What a healed cluster has to come to rest, with the longest of all timeouts and back-offs."""
FINISH_SECONDS: Final = 120.0
LINES_TOLD: Final = 40
_kept: Final[list["Run"]] = []


@dataclass
class Report:
    """What came of a run."""

    seed: int
    scenario: str
    failure: str | None = None
    trace: str = ""
    simulated_seconds: float = 0.0
    cpu_seconds: float = 0.0
    steps: int = 0
    deliveries: int = 0
    progress: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)
    """Of a failure: where it happened, and the last that happened before."""

    @property
    def is_ok(self) -> bool:
        return self.failure is None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class _Mistakes(logging.Handler):
    """Errors of ours that the server survives, and tells its log of, are failures of a run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(logging.ERROR)
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            error = record.exc_info[1]
            what = f"{record.getMessage()}: {type(error).__name__}: {error}"
            if not isinstance(error, OSError):
                text = "".join(traceback.format_exception(error))
                self._cluster.note(text)
                self._cluster.violation("mistake", what)


@contextmanager
def _no_mistakes(cluster: SimulatedCluster) -> Iterator[None]:
    handler = _Mistakes(cluster)
    root = logging.getLogger("ottla")
    root.addHandler(handler)
    propagate, root.propagate = root.propagate, False
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.propagate = propagate


class Run:
    """The phases, in their order."""

    def __init__(
        self,
        seed: int,
        scenario: Scenario,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self.cluster = SimulatedCluster(
            seed,
            scenario.brokers,
            settings=scenario.settings,
            roles=scenario.roles,
            processes=scenario.processes,
            static_quorum=scenario.static_quorum,
            clock_rates=scenario.clock_rates,
            features=scenario.features,
        )
        self.cluster.leisure = scenario.leisure
        if tell is not None:
            self.cluster.trace.on_line = tell
        if scenario.loses_indexes:
            chance = Chance(int.from_bytes(f"{seed}/lost indexes".encode()))
            self.cluster.on_start.append(partial(lose_indexes, chance=chance))
        if scenario.store:
            self.cluster.remote.mood = MOODS[scenario.store]
        self.metadata = MetadataChecker(self.cluster)
        self.tier = TierChecker(self.cluster)
        self.replicas = ReplicaChecker(self.cluster)
        self.nemesis = Nemesis(self.cluster, scenario.faults)
        self.history = History(lambda: self.cluster.scheduler.now)
        self.mix = Mix(self.cluster, self.history, scenario.workloads)

    @property
    def progress(self) -> int:
        """Operations that have succeeded."""
        return sum(operation.is_ok for operation in self.history)

    def go(self) -> None:
        cluster = self.cluster
        cluster.note(str(self.scenario))
        with _no_mistakes(cluster):
            cluster.start()
            self._wait_for(
                run(self.cluster.scheduler.turn, self.mix.prepare()),
                "the workloads are not prepared",
            )
            self.mix.start()
            self.nemesis.start(self.scenario.seconds)
            cluster.run_for(self.scenario.seconds)
            self.nemesis.heal()
            cluster.remote.heal()
            self._come_to_rest()
            self._finish()

    def _until(self, condition: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
        """Run until it holds; looked at a few times a second, as it costs."""
        cluster = self.cluster
        end = cluster.scheduler.now + seconds
        while not condition():
            if cluster.scheduler.now >= end:
                raise Violation(Anomaly("liveness", why()))
            cluster.run_for(0.25)

    def _wait_for(self, promise: Promise[None], why: str) -> None:
        self._until(lambda: promise.done, FINISH_SECONDS, lambda: why)
        promise.result()

    def _come_to_rest(self) -> None:
        operations = self.history.operations
        begun = len(operations)

        def is_well() -> bool:
            return (
                self.nemesis.is_done
                and self.cluster.is_in_sync()
                and any(operation.is_ok for operation in operations[begun:])
            )

        def why() -> str:
            return self.cluster.unrest() or "nothing that was begun after the faults succeeds"

        self._until(is_well, LIVENESS_SECONDS, why)
        self.cluster.note("at rest")

    def _finish(self) -> None:
        cluster, mix = self.cluster, self.mix
        mix.stop()
        self._until(
            lambda: not mix.still_running,
            FINISH_SECONDS,
            lambda: f"{', '.join(mix.still_running)} does not end",
        )
        self._wait_for(run(self.cluster.scheduler.turn, mix.conclude()), "the end cannot be read")
        self._until(cluster.is_in_sync, LIVENESS_SECONDS, lambda: cluster.unrest() or "")
        mix.close()
        self._until(
            lambda: coordinators.unrest(cluster) is None,
            LIVENESS_SECONDS,
            lambda: coordinators.unrest(cluster) or "",
        )
        # Followers learn of the last high watermark by their next fetch.
        cluster.run_for(5.0)
        self.replicas.check_rest()
        if self.scenario.store:
            self._check_tier()
        for anomaly in check(self.history):
            cluster.violation(*anomaly)
        if cluster.violations:
            raise Violation(cluster.violations[0])
        cluster.note("all is well")

    def _check_tier(self) -> None:
        """What was left behind in the store goes when its time has come."""
        tier = self.tier
        if REMOTE_LOG_METADATA in self.cluster.lost:
            return  # nobody knows what there was in it
        self._until(lambda: tier.unrest() is None, LIVENESS_SECONDS, lambda: tier.unrest() or "")
        tier.check_starts(TieredRecords.NAME)


def run_seed(
    seed: int,
    name: str = SWARM,
    seconds: float | None = None,
    tell: Callable[[str], None] | None = None,
    *,
    tells_deliveries: bool = False,
    is_last: bool = False,
) -> Report:
    """Run a seed, and report; whatever goes wrong is in the report.

    After the last one nothing is cleared away: the process ends.
    """
    scenario = draw_scenario(seed, name, seconds)
    report = Report(seed, str(scenario))
    # What is made in a run is mostly needed to its end; looking for what is not costs a tenth.
    gc.disable()
    began = time.process_time()
    try:
        whole = Run(seed, scenario, tell)
        whole.cluster.trace.tells_deliveries = tells_deliveries
        _go(whole, report)
        if is_last:
            _kept.append(whole)
        else:
            del whole
            gc.collect(0)
            gc.collect(1)  # what only the end of the rest has let go
    finally:
        if not is_last:  # else the next object would have it look at all that the run has made
            gc.enable()
    report.cpu_seconds = round(time.process_time() - began, 3)
    return report


def _go(whole: Run, report: Report) -> None:
    try:
        whole.go()
    except Violation as violation:
        report.failure = str(violation)
    except Exception as error:  # noqa: BLE001 - any error of the server is a finding
        report.failure = f"{type(error).__name__}: {error}"
        report.details = traceback.format_exc().splitlines()
    cluster = whole.cluster
    if report.failure is not None:
        report.details += list(cluster.trace.lines)[-LINES_TOLD:]
    report.trace = cluster.trace.digest
    report.simulated_seconds = round(cluster.scheduler.now, 3)
    report.steps = cluster.scheduler.steps
    report.deliveries = cluster.network.delivered
    report.progress = whole.progress
    report.faults = dict(sorted(whole.nemesis.begun.items()))
