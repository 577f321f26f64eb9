"""The process in which the demo's pipeline runs: ``python -m ottla.demo.pipeline_main DIRECTORY``.

Spark takes long to start, so it begins at once and then waits on standard input for one line, the
address of the brokers. The end of standard input means: stop after the micro-batches that are under
way. It comes when the demo wants it, and also when the demo is gone, however it ended.
"""

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.spark.pipelines import runner
from ottla.spark.pipelines.project import load
from ottla.spark.pipelines.sessions import open_session
from ottla.spark.pipelines.state import FAILED
from ottla.spark.worker_directory import quick_workers

MASTER: Final = "local[*]"
LINKS: Final = "python"
SETTINGS: Final = {
    # The second compiler and a parallel collector cost more on a laptop than they give in a demo.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "120s",  # all streams start at once
    "spark.ui.enabled": "false",
}


class Orders:
    """What the parent says, heard in a thread."""

    def __init__(self) -> None:
        self.bootstrap_servers = ""
        self.go = threading.Event()
        self.stop = threading.Event()
        threading.Thread(target=self._hear, name="orders", daemon=True).start()

    def _hear(self) -> None:
        self.bootstrap_servers = sys.stdin.readline().strip()
        if not self.bootstrap_servers:
            os._exit(0)  # nothing was begun, and nothing waits for Spark to come up
        self.go.set()
        sys.stdin.read()
        self.stop.set()


def main() -> int:
    """Run the pipeline of a directory until standard input ends."""
    orders = Orders()
    directory = Path(sys.argv[1]).resolve()
    pipeline = load(directory)
    with quick_workers(directory / LINKS):
        spark = open_session(pipeline, MASTER, SETTINGS)
    orders.go.wait()
    pipeline = replace(pipeline, bootstrap_servers=orders.bootstrap_servers)
    try:
        state = runner.run(pipeline, master=MASTER, spark=spark, stop=orders.stop)
    finally:
        spark.stop()
    return int(state.status == FAILED)


if __name__ == "__main__":
    sys.exit(main())
