"""The broker of a curve: ours, alone, on an empty directory."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.many import PATIENCE_SECONDS
from tools.kafka_peer.broker_process import BrokerProcess, ottla

SETTINGS: Final = {"num.recovery.threads.per.data.dir": "2"}


@contextmanager
def fresh_broker(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[BrokerProcess]:
    directory = Path(tempfile.mkdtemp(prefix="bench-growth-"))
    broker = BrokerProcess(ottla(), directory, {**SETTINGS, **settings})
    try:
        broker.start()
        yield broker
    finally:
        broker.stop(timeout=PATIENCE_SECONDS)
        shutil.rmtree(directory, ignore_errors=True)
