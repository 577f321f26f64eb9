"""``ottla demo`` as a process: the shop opens, goes on where it stopped, and leaves nobody."""

import json
import re
import signal
import socket
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from tests.cli.command_process import command_process, stop, wait_for

from ottla.cli.main import cli
from ottla.client.consumer import Consumer
from ottla.demo.shop import PAGE_VIEWS

pytestmark = pytest.mark.timeout(240)
OPEN = r"the shop is open \((.*)\)   bootstrap\.servers=(\S+)"


def demo(directory: Path, *words: str) -> AbstractContextManager["subprocess.Popen[str]"]:
    every = ("demo", "--any-port", "--directory", "shop")
    return command_process(*every, *words, directory=directory, own_session=True)


def interrupt(started: "subprocess.Popen[str]") -> tuple[int, str]:
    """As a terminal does it: the signal goes to all of the process group."""
    return stop(started, signal.SIGINT, whole=True, seconds=120)


def visits(bootstrap_servers: str) -> list[int]:
    with Consumer(bootstrap_servers) as consumer:
        partitions = consumer.partitions(PAGE_VIEWS)
        ends = consumer.end_offsets(partitions)
        consumer.assign(dict.fromkeys(partitions, 0))
        found = set()
        while any(consumer.position(each) < ends[each] for each in partitions):
            for records in consumer.poll(1_000).values():
                found |= {json.loads(record.value or b"")["visit"] for record in records}
    return sorted(found)


def test_the_shop_opens_goes_on_where_it_stopped_and_leaves_nobody(tmp_path: Path) -> None:
    words = ("--rate", "300", "--brokers", "2", "--no-spark")
    with demo(tmp_path, *words) as started:
        opened = wait_for(started, OPEN)
        assert opened[1] == "a new shop"
        wait_for(started, r"written [1-9],?\d+ \([1-9]\d*/s\).*pipeline --no-spark")
        family = psutil.Process(started.pid).children(recursive=True)
        assert len(family) >= 2
        code, rest = interrupt(started)
        assert (code, "Traceback" in rest) == (0, False), rest
        assert "Run it again to go on" in rest
        assert [each for each in family if each.is_running()] == []
    with demo(tmp_path, *words) as started:
        opened = wait_for(started, OPEN)
        went_on = re.fullmatch(r"going on with visit ([\d,]+)", opened[1])
        assert went_on is not None, opened[1]
        wait_for(started, r"written [1-9],?\d+ \([1-9]\d*/s\)")
        seen = visits(opened[2])
        assert seen == list(range(len(seen)))
        assert len(seen) > int(went_on[1].replace(",", "")) > 0
        assert interrupt(started)[0] == 0
    wrong = CliRunner().invoke(cli, ["demo", "--directory", str(tmp_path / "shop")])
    assert wrong.exit_code == 2
    assert "is of 2 nodes" in wrong.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_orders_come_back_from_spark_and_a_second_run_goes_on(tmp_path: Path) -> None:
    words = ("--rate", "200")
    back = r"enriched ([\d,]*[1-9][\d,]*) \("
    seen = 0
    for begins in ("a new shop", "going on with visit"):
        with demo(tmp_path, *words) as started:
            assert wait_for(started, OPEN)[1].startswith(begins)
            wait_for(started, "the first enriched orders are back")
            count = seen
            while count <= seen:  # what the run before has left is there at once
                count = int(wait_for(started, back)[1].replace(",", ""))
            seen = count
            family = psutil.Process(started.pid).children(recursive=True)
            assert any("java" in each.name() for each in family)
            code, rest = interrupt(started)
            assert (code, "Traceback" in rest) == (0, False), rest
            psutil.wait_procs(family, 30)
            assert [each for each in family if each.is_running()] == []
    log = (tmp_path / "shop" / "pipeline.log").read_text()
    assert "Traceback" not in log, log


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_demo_that_is_killed_leaves_nobody(tmp_path: Path) -> None:
    with demo(tmp_path) as started:
        wait_for(started, OPEN)
        family = psutil.Process(started.pid).children(recursive=True)
        assert len(family) >= 4
        started.kill()
        started.wait()
        _, left = psutil.wait_procs(family, 120)
    assert left == []


def test_a_port_that_is_taken_is_said_before_anything_is_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["demo", "--directory", str(tmp_path / "shop"), "--port", str(port)]
        result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1
    assert f"port {port} of 127.0.0.1 is in use" in result.stderr
    assert not (tmp_path / "shop").exists()
