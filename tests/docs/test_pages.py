"""The documents are true: their links lead somewhere, their programs run, their lists are whole."""

import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import confluent_kafka
import pytest
from click.testing import CliRunner
from tests.cli.command_process import command_process, stop, wait_for
from tools import docs_site

from ottla.cli.main import cli
from ottla.client.consumer import Consumer
from ottla.protocol.api import APIS
from ottla.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The file and the heading that each link of a page leads to."""
    for match in LINK.finditer(CODE.sub("", page.read_text("utf-8"))):
        target = match[1]
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = unquote(target).partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{page.name} leads to {target}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} leads to #{anchor} of {target.name}"


def test_every_page_is_reached_from_readme() -> None:
    reached = {ROOT / "README.md"}
    todo = list(reached)
    while todo:
        for target, _ in links(todo.pop()):
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                todo.append(target)
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached] == []


def test_the_site_has_every_page_and_names_those_that_there_are() -> None:
    named = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    made = {"docs/reference/packages.md"}
    assert named == {str(page.relative_to(ROOT)) for page in PAGES} | made


def test_the_page_of_packages_says_what_imports_what() -> None:
    page = docs_site.packages_page()
    (row,) = re.findall(r"^\| `raft` \|.*\|(.*)\|(.*)\|$", page, re.MULTILINE)
    assert "`storage`" in row[0]
    assert "`controller`" in row[1]
    assert "`raft`" not in row[0]


def test_five_lines_of_readme_produce_a_record() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    first = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert first is not None
    with Broker() as broker:
        program = first[1].replace("127.0.0.1:9092", broker.bootstrap_servers)
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
        with Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign(dict.fromkeys(consumer.partitions("events"), 0))
            ((record,),) = consumer.poll(10_000).values()
    assert (record.key, record.value) == (b"k", b"hello")


def test_the_file_of_readme_is_enough_for_groups_and_transactions(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    written = re.search(r"^```properties\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert written is not None
    listeners = "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    text = re.sub(r"^listeners=.*$", listeners, written[1], flags=re.MULTILINE)
    file = tmp_path / "server.properties"
    file.write_text(re.sub(r"^log.dirs=.*$", f"log.dirs={tmp_path}/data", text, flags=re.MULTILINE))
    done = CliRunner().invoke(
        cli, ["storage", "format", "-t", "c", "-c", str(file), "--standalone"]
    )
    assert done.exit_code == 0, done.output
    with command_process("server", str(file), directory=tmp_path) as started:
        servers = "127.0.0.1:" + wait_for(started, r"serving .*'PLAINTEXT': (\d+)")[1]
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "t"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("events", value=b"hello")
        producer.commit_transaction(60)
        words = ["consume", "events", "--from-beginning", "--group", "g", "-n", "1", "-b", servers]
        assert CliRunner().invoke(cli, words).stdout == "hello\n"
        assert stop(started, signal.SIGTERM)[0] == 0


def test_the_page_of_requests_is_what_a_broker_serves() -> None:
    page = (ROOT / "docs" / "reference" / "apis.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+)(?: to (\d+))? \|$", page, re.MULTILINE)
    written = {(name, int(key), int(low), int(high or low)) for name, key, low, high in rows}
    with Broker() as broker:
        served = {(APIS[key].name, key, low, high) for key, low, high in api_versions(broker)}
    assert written == served


def api_versions(broker: Broker) -> Iterator[tuple[int, int, int]]:
    """As the oldest client asks: ApiVersions v0 without a client id."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            data = answer.read(size)
    correlation_id, error, count = struct.unpack_from(">ihi", data)
    assert (correlation_id, error) == (7, 0)
    return struct.iter_unpack(">hhh", data[10 : 10 + 6 * count])
