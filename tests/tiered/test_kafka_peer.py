"""Apache Kafka's own classes are asked about records, partitions and what a cache makes of them."""

import random
import subprocess
from pathlib import Path

import pytest
from tests.tiered.histories import DELETED, DELETING, FINISHED, segment, update
from tests.tiered.test_records import BY_APACHE, CHOICES
from tools.kafka_peer import peer

from ottla.common.identifiers import uuid_text
from ottla.tiered.cache import SegmentCache
from ottla.tiered.records import encode
from ottla.tiered.segments import RemoteLogSegment, SegmentUpdate

pytestmark = pytest.mark.peer

HERE = Path(__file__).parent
PROGRAM = "org.apache.kafka.server.log.remote.metadata.storage.RemoteLogOracle"


class Oracle:
    """Compiled into the package whose classes it asks: their methods are for that package only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        jars = f"{peer.home() / 'libs'}/*"
        source = str(HERE / "RemoteLogOracle.java")
        command = ["javac", "-proc:none", "-cp", jars, "-d", str(directory), source]
        subprocess.run(command, check=True, timeout=100, env=peer.environment())

    def ask(self, questions: list[str]) -> list[str]:
        command = peer.java(PROGRAM, flags=peer.SHORT_LIVED, logging="tools-log4j2.yaml")
        place = command.index("-cp") + 1
        command[place] = f"{self._directory}:{command[place]}"
        done = subprocess.run(
            command,
            input="\n".join(questions) + "\n",
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
            env=peer.environment(),
        )
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(tmp_path_factory.mktemp("oracle"))


def test_apache_writes_what_it_has_read_from_us(oracle: Oracle) -> None:
    questions = [f"again\t{value}" for value, _ in BY_APACHE]
    assert oracle.ask(questions) == [value for value, _ in BY_APACHE]


def test_apache_chooses_the_same_partitions(oracle: Oracle) -> None:
    questions = [f"partition\t{one}\t{two}\t{three}" for one, two, three, _ in CHOICES]
    assert oracle.ask(questions) == [str(choice) for *_, choice in CHOICES]


class History:
    """Leaders copy, in order and overlapping as new leaders do; retention takes the oldest."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cache = SegmentCache()
        self.questions = ["forget"]
        self.ours = [""]
        self.alive: list[RemoteLogSegment] = []
        self.end = 0
        self.epoch = 0

    def step(self, number: int) -> None:
        if self.alive and self.random.random() < 0.3:
            oldest = self.alive.pop(0)
            for state in (DELETING, DELETED):
                self.tell(update(0, state)._replace(segment_id=oldest.segment_id))
        else:
            self.copy(number)
        for offset in range(0, self.end + 5, 3):
            for epoch in range(self.epoch + 1):
                self.ask(f"find\t{epoch}\t{offset}", self.find(epoch, offset))
        for epoch in range(self.epoch + 2):
            highest = self.cache.highest_offset_for_epoch(epoch)
            self.ask(f"highest\t{epoch}", "-" if highest is None else str(highest))
        alive = sorted(f"{uuid_text(each.segment_id)}:{each.state}" for each in self.cache)
        self.ask("all", ",".join(alive))

    def copy(self, number: int) -> None:
        start = self.end
        if self.random.random() < 0.3 and self.alive:
            # A new leader, whose segments begin elsewhere, copies what is not whole again.
            start = max(self.alive[-1].start_offset, self.end - self.random.randrange(20))
        end = max(start, self.end) + self.random.randrange(1, 20)
        epochs = {self.epoch: start}
        if self.random.random() < 0.4:
            self.epoch += 1
            epochs[self.epoch] = max(self.end, start + 1)
        made = segment(number, start, end, epochs)
        self.tell(made)
        self.tell(update(number, FINISHED))
        self.alive.append(made)
        self.end = end + 1

    def tell(self, record: RemoteLogSegment | SegmentUpdate) -> None:
        took = self.cache.replay(record)
        self.ask(f"replay\t{encode(record).hex()}", "ok" if took else "dropped")

    def find(self, epoch: int, offset: int) -> str:
        found = self.cache.find(epoch, offset)
        return "-" if found is None else uuid_text(found.segment_id)

    def ask(self, question: str, ours: str) -> None:
        self.questions.append(question)
        self.ours.append(ours)


def test_apaches_cache_finds_the_same_segments(oracle: Oracle) -> None:
    histories = [History(seed) for seed in range(30)]
    for history in histories:
        for number in range(25):
            history.step(number)
    questions = [question for history in histories for question in history.questions]
    ours = [answer for history in histories for answer in history.ours]
    different = [
        (question, theirs, our)
        for question, theirs, our in zip(questions, oracle.ask(questions), ours, strict=True)
        if theirs != our
    ]
    assert different == []
