"""Connections that a process keeps from task to task are closed when it ends."""

import subprocess
import sys
from typing import Final

from tests.spark.topics import Topics

PROGRAM: Final = """
import atexit, gc, socket, sys

@atexit.register
def tell() -> None:  # the first that was registered runs last
    left = [each for each in gc.get_objects() if isinstance(each, socket.socket)]
    print([each for each in left if each.fileno() >= 0])

from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.writer import links
from ottla.spark.source.broker_reads import connected
from ottla.spark.source.options import SourceOptions
from ottla.tiered.segments import TopicIdPartition

asked = {"kafka.bootstrap.servers": sys.argv[1]}
reads = connected(SourceOptions.parse({**asked, "subscribe": sys.argv[2]}).kafka)
found = reads.topics([sys.argv[2]])
reads.remote_segments.read([TopicIdPartition(bytes(16), sys.argv[2], 0)])
with links(SinkOptions.parse(asked)) as taken:
    assert taken.control.refresh([]).brokers and taken.data.refresh([]).brokers
print(*found)
"""


def test_a_process_that_ends_has_closed_all_its_sockets(topics: Topics) -> None:
    topic = topics.make()
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, topics.address, topic],
        check=True,
        capture_output=True,
        text=True,
    )
    assert ended.stdout == f"{topic}\n[]\n"
