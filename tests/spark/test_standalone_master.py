"""The pipeline of the demo on a cluster of Spark: a master and two workers, each a process."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.spark.shop_results import Expected, open_shop
from tests.waiting import eventually
from tools.installed import IMPORT_PATH

from ottla.server.local_cluster import HOST, free_ports
from ottla.spark import java
from ottla.spark.pipelines import template
from ottla.testing.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
WORKERS = 2
SETTINGS = {
    "spark.driver.bindAddress": HOST,
    "spark.driver.host": HOST,
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
}


def environment(directory: Path) -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(java.ensure().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": IMPORT_PATH,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(directory / "work"),
    }


@contextmanager
def daemon(directory: Path, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """One of Spark's own: a master or a worker."""
    import pyspark

    directory.mkdir()
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (directory / "log").open("wb") as log:
        started = subprocess.Popen(
            [str(program), *words], stdout=log, stderr=log, env=environment(directory)
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def described(port: int) -> dict[str, Any]:
    with (
        suppress(OSError, ValueError),
        urllib.request.urlopen(f"http://{HOST}:{port}/json/", timeout=5) as answer,
    ):
        found: dict[str, Any] = json.load(answer)
        return found
    return {}


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """A master with its workers; its address."""
    port, web, *others = free_ports(2 + WORKERS)
    address = f"spark://{HOST}:{port}"
    package = "org.apache.spark.deploy"
    with ExitStack() as running:
        words = ["--host", HOST, "--port", str(port), "--webui-port", str(web)]
        running.enter_context(daemon(directory / "master", f"{package}.master.Master", *words))
        eventually(lambda: bool(described(web)), seconds=120)
        for number, other in enumerate(others):
            words = ["--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", str(other)]
            place = directory / f"worker-{number}"
            running.enter_context(daemon(place, f"{package}.worker.Worker", *words, address))
        eventually(lambda: described(web).get("aliveworkers") == WORKERS, seconds=120)
        yield address


def test_the_shop_on_a_master_with_two_workers_equals_a_plain_computation(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    with Cluster(3, proxied=False) as cluster, standalone(tmp_path) as master:
        expected = Expected(open_shop(cluster.bootstrap_servers))
        template.write(project, "shop", cluster.bootstrap_servers)
        settings = [word for pair in SETTINGS.items() for word in ("--conf", "=".join(pair))]
        command = [sys.executable, "-m", "ottla", "pipeline", "run", str(project), "--once"]
        done = subprocess.run(
            [*command, "--master", master, *settings],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        expected.check(project, cluster.bootstrap_servers)
    for number in range(WORKERS):
        assert list((tmp_path / f"worker-{number}" / "work").glob("app-*/*/stderr"))
