"""franz-go, a client that is written in Go: administration, producers and groups of both kinds."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.admin import create_topic
from tests.integration.clients import CLIENTS
from tools.kafka_peer.broker_process import BrokerProcess

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

SOURCES = Path(__file__).with_name("go")
KINDS = pytest.mark.parametrize("kind", ["classic", "consumer"])
PARTITIONS = 3

Go = Callable[..., list[str]]


def go_command() -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        pytest.skip("there is no Go here (`go` neither on the path nor in /usr/local/go/bin)")
    return found


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, compiled; its modules come from where Go is told to get them."""
    built = tmp_path_factory.mktemp("go") / "client"
    words = [go_command(), "build", "-mod=readonly", "-o", str(built), "."]
    done = subprocess.run(words, cwd=SOURCES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built


@pytest.fixture
def go(executable: Path, broker: BrokerProcess) -> Go:
    """Runs one sub-command to its end; the lines that it prints."""

    def run(command: str, *args: str, lines: list[str] | None = None) -> list[str]:
        words = [str(executable), command, broker.bootstrap_servers, *args]
        text = "".join(f"{line}\n" for line in lines or [])
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def numbered(word: str, count: int) -> list[str]:
    return [f"{word}-{number} {number}" for number in range(count)]


def without_place(lines: list[str]) -> list[str]:
    """Key and value of each record, in order."""
    return sorted(line.split(" ", 2)[2] for line in lines)


def test_it_creates_and_describes_a_topic(go: Go, topic_name: str) -> None:
    go("create", topic_name, str(PARTITIONS))
    assert go("describe", topic_name) == [f"{number} 1 1 0" for number in range(PARTITIONS)]
    produced = go("produce", topic_name, lines=numbered("key", 30))
    ends = [int(line.split()[3]) for line in go("describe", topic_name)]
    assert sum(ends) == len(produced) == 30


def test_what_it_produces_another_client_reads(
    go: Go, broker: BrokerProcess, topic_name: str
) -> None:
    """Idempotently, as it does unless it is told otherwise, and with compression."""
    create_topic(broker.bootstrap_servers, topic_name)
    lines = numbered("key", 500)
    go("produce", topic_name, lines=lines)
    found = CLIENTS[0].consume(broker.bootstrap_servers, topic_name, len(lines))
    assert [
        f"{(each.key or b'').decode()} {(each.value or b'').decode()}" for each in found
    ] == lines


@KINDS
def test_its_group_reads_whole_transactions_commits_and_resumes(
    go: Go, broker: BrokerProcess, topic_name: str, kind: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=PARTITIONS)
    first = numbered("first", 100)
    written = go("transact", topic_name, f"{topic_name}-id", "commit", lines=first)
    go("transact", topic_name, f"{topic_name}-id", "abort", lines=numbered("aborted", 50))
    consumed = go("consume", topic_name, topic_name, kind, "100")
    assert sorted(consumed) == sorted(written)
    assert without_place(consumed) == sorted(first)

    second = numbered("second", 100)
    go("transact", topic_name, f"{topic_name}-id", "commit", lines=second)
    assert without_place(go("consume", topic_name, topic_name, kind, "100")) == sorted(second)
    state, *committed = go("describe-group", topic_name, kind)
    assert state == "Empty 0"
    assert {line.split()[1] for line in committed} == {str(number) for number in range(PARTITIONS)}


@KINDS
def test_it_copies_in_transactions_with_its_offsets(
    go: Go, broker: BrokerProcess, topic_name: str, kind: str
) -> None:
    source, target = f"{topic_name}-in", f"{topic_name}-out"
    for topic in (source, target):
        create_topic(broker.bootstrap_servers, topic, partitions=PARTITIONS)
    identity = (f"{topic_name}-group", f"{topic_name}-id", kind)
    halves = numbered("first", 400), numbered("second", 400)
    for half in halves:
        go("produce", source, lines=half)
        go("copy", source, target, *identity, "400")
    copied = without_place(go("consume", target, f"{topic_name}-check", kind, "800"))
    assert copied == sorted(halves[0] + halves[1])
    ends = {line.split()[0]: int(line.split()[3]) for line in go("describe", source)}
    _, *committed = go("describe-group", f"{topic_name}-group", kind)
    assert {line.split()[1]: int(line.split()[2]) for line in committed} == ends
