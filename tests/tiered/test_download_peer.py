"""Segments that were copied and brought back are Kafka's: its own tool reads them."""

from pathlib import Path

import pytest
from tests.storage import logs
from tests.tiered.remote import tier
from tests.tiered.test_reader import with_transactions
from tools.kafka_peer import peer

from ottla.storage.files import OsFilesystem
from ottla.tiered.copier import download
from ottla.tiered.driver.directory import DirectoryStore
from ottla.tiered.manifest import CHUNK_SIZE

pytestmark = pytest.mark.peer

COMPLAINTS = ("mismatch", "corrupt", "Exception", "out of order", "not found", "isvalid: false")


@pytest.fixture(scope="module")
def downloaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition that was uploaded segment by segment, all of it brought back."""
    directory = tmp_path_factory.mktemp("tier")
    files = OsFilesystem()
    log = logs.open_log(
        files, logs.settings(internal_segment_bytes=30_000), directory=str(directory / "topic-0")
    )
    with_transactions(log)
    for number in range(400):
        values = [bytes([number % 250]) * (number % 300)] * 3
        logs.append_batch(log, logs.batch(values, codec=number % 5), epoch=number // 100)
    log.roll(logs.NOW)
    store = DirectoryStore(str(directory / "store"))
    segments = tier(log, files, store, chunk_size=CHUNK_SIZE)
    assert len(segments) > 2
    back = directory / "back" / "topic-0"
    for segment in segments:
        download(store, segment, files, str(back))
    return back


@pytest.mark.parametrize(
    "option", ["--deep-iteration", "--verify-index-only", "--index-sanity-check"]
)
def test_kafka_dump_log_finds_nothing_wrong_with_what_came_back(
    downloaded: Path, option: str
) -> None:
    paths = sorted(
        path for path in downloaded.iterdir() if path.suffix in (".log", ".index", ".timeindex")
    )
    answer = peer.run_tool("kafka-dump-log", option, "--files", ",".join(map(str, paths)))
    assert answer.returncode == 0, answer.stderr
    for complaint in COMPLAINTS:
        assert complaint not in answer.stdout + answer.stderr
    if option == "--deep-iteration":
        assert answer.stdout.count("| offset: ") > 3 * 400


def test_kafka_dump_log_reads_snapshots_and_transaction_indexes(downloaded: Path) -> None:
    for suffix in (".snapshot", ".txnindex"):
        paths = sorted(downloaded.glob(f"*{suffix}"))
        assert paths
        answer = peer.run_tool("kafka-dump-log", "--files", ",".join(map(str, paths)))
        assert answer.returncode == 0, answer.stderr
        assert "producerId: " in answer.stdout
