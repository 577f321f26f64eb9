"""``ottla consume --group`` as processes: members share partitions, and leave when stopped."""

import signal
from pathlib import Path

import confluent_kafka
from tests.cli.command_process import command_process, stop, wait_for
from tests.waiting import eventually

from ottla.client.admin import Admin
from ottla.client.groups import EMPTY_STATES
from ottla.common.topic_partition import TopicPartition
from ottla.testing import Broker


def test_members_share_the_partitions_and_leave_when_stopped(tmp_path: Path) -> None:
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({"shared": 2})
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(20):
            producer.produce("shared", b"%d" % number, partition=number % 2)
        producer.flush()
        words = ("consume", "shared", "-g", "g", "--from-beginning", "-b", broker.bootstrap_servers)

        def held() -> list[int]:
            return sorted(len(each.assigned) for each in admin.describe_group("g").members)

        with command_process(*words, directory=tmp_path) as first:
            wait_for(first, r"\d+")
            with command_process(*words, directory=tmp_path) as second:
                eventually(lambda: held() == [1, 1])
                code, last = stop(second, signal.SIGINT)
                assert (code, "Traceback" in last) == (0, False)
                eventually(lambda: held() == [2])
            code, last = stop(first, signal.SIGINT)
            assert (code, "Traceback" in last) == (0, False)
        assert admin.describe_group("g").state in EMPTY_STATES
        committed = {each: at.offset for each, at in admin.group_offsets("g").items()}
        assert committed == {TopicPartition("shared", index): 10 for index in (0, 1)}
