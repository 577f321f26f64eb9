"""Groups of both kinds in the hands of librdkafka: share, resume, upgrade, survive."""

import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
from tests.integration.admin import create_topic
from tests.integration.clients import CLIENTS, Message
from tests.integration.conftest import NewBroker
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess

QUICK_GROUPS = {
    "group_consumer_min_heartbeat_interval_ms": "200",
    "group_consumer_heartbeat_interval_ms": "300",
    "group_consumer_min_session_timeout_ms": "2000",
    "group_consumer_session_timeout_ms": "5000",
    "group_consumer_assignment_interval_ms": "100",
    "group_min_session_timeout_ms": "1000",
    "group_initial_rebalance_delay_ms": "100",
}
MEMBER = Path(__file__).with_name("group_member.py")


@pytest.fixture
def quick(new_broker: NewBroker) -> BrokerProcess:
    return new_broker(**QUICK_GROUPS)


def consumer(
    broker: BrokerProcess, group: str, protocol: str = "consumer", **more: str
) -> confluent_kafka.Consumer:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 2,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 3000, "heartbeat.interval.ms": 200}
        # its sticky assignor puts data of its own into assignments, and such groups stay classic
        settings["partition.assignment.strategy"] = "range"
    return confluent_kafka.Consumer(settings)


def fill(broker: BrokerProcess, topic: str, partitions: int, each: int = 10) -> set[bytes]:
    values = set()
    for partition in range(partitions):
        batch = [b"%d-%d" % (partition, number) for number in range(each)]
        CLIENTS[0].produce(
            broker.bootstrap_servers,
            topic,
            [Message(value) for value in batch],
            partition=partition,
        )
        values.update(batch)
    return values


def read(count: int, *members: confluent_kafka.Consumer, seconds: float = 40) -> list[bytes]:
    values: list[bytes] = []
    end = time.monotonic() + seconds
    while len(values) < count and time.monotonic() < end:
        for member in members:
            message = member.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
    return values


def shares(*members: confluent_kafka.Consumer) -> list[int]:
    for member in members:
        member.poll(0.05)
    return sorted(len(member.assignment()) for member in members)


def test_librdkafka_subscribes_commits_shares_and_resumes(
    quick: BrokerProcess, topic_name: str
) -> None:
    create_topic(quick.bootstrap_servers, topic_name, partitions=4)
    values = fill(quick, topic_name, 4)
    first = consumer(quick, "group")
    first.subscribe([topic_name])
    assert set(read(40, first)) == values
    first.commit(asynchronous=False)
    second = consumer(quick, "group", group_instance_id="static")
    second.subscribe([topic_name])
    eventually(lambda: shares(first, second) == [2, 2], "both have their share")
    first.close()
    eventually(lambda: shares(second) == [4], "the other takes over")
    assert not read(1, second, seconds=1)
    second.close()


def test_librdkafka_subscribes_by_a_regular_expression(
    quick: BrokerProcess, topic_name: str
) -> None:
    create_topic(quick.bootstrap_servers, f"{topic_name}-a", partitions=2)
    create_topic(quick.bootstrap_servers, f"{topic_name}-b", partitions=2)
    create_topic(quick.bootstrap_servers, "elsewhere", partitions=2)
    member = consumer(quick, "group")
    member.subscribe([f"^{topic_name}-.*"])
    eventually(lambda: shares(member) == [4], "both topics")
    member.close()


def test_a_group_is_upgraded_and_downgraded_while_it_reads(
    quick: BrokerProcess, topic_name: str
) -> None:
    create_topic(quick.bootstrap_servers, topic_name, partitions=4)
    old = [consumer(quick, "group", "classic") for _ in range(2)]
    for member in old:
        member.subscribe([topic_name])
    eventually(lambda: shares(*old) == [2, 2], "the classic members share")
    new = consumer(quick, "group")
    new.subscribe([topic_name])
    eventually(lambda: shares(*old, new) == [1, 1, 2], "all three share")
    values = fill(quick, topic_name, 4)
    found = read(40, *old, new)
    assert sorted(found) == sorted(values)
    for member in (*old, new):
        member.commit(asynchronous=False)
    new.close()
    eventually(lambda: shares(*old) == [2, 2], "the classic members share again")
    newcomer = consumer(quick, "group")
    newcomer.subscribe([topic_name])
    eventually(lambda: shares(*old, newcomer) == [1, 1, 2], "up again")
    for member in old:
        member.close()
    eventually(lambda: shares(newcomer) == [4], "the last one has everything")
    assert not read(1, newcomer, seconds=1)
    newcomer.close()


# Under load, with kill -9


class Step(NamedTuple):
    time: float
    what: str
    partition: int
    offset: int
    value: str


def steps(path: Path) -> list[Step]:
    found = []
    for line in path.read_text(encoding="ascii").splitlines(keepends=True):
        if line.endswith("\n"):  # the last line of a killed member may be cut
            moment, what, partition, offset, *value = line.split()
            found.append(Step(float(moment), what, int(partition), int(offset), "".join(value)))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["consumer", "range", "cooperative-sticky"])
def test_twenty_members_come_and_go_under_load(
    new_broker: NewBroker, topic_name: str, tmp_path: Path, kind: str
) -> None:
    """Members leave, they and the broker are killed; nothing is missed or read after its commit.

    The last two kinds are classic groups: members that give up everything, and only what they must.
    """
    partitions, members_max, seed = 12, 20, 848
    chance = random.Random(seed)
    broker = new_broker(**QUICK_GROUPS)
    create_topic(broker.bootstrap_servers, topic_name, partitions=partitions)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 2}
    )
    running: list[subprocess.Popen[bytes]] = []
    produced = 0

    def start() -> None:
        path = tmp_path / f"member-{len(list(tmp_path.glob('member-*')))}.log"
        command = [sys.executable, str(MEMBER), broker.bootstrap_servers, "group", topic_name]
        running.append(subprocess.Popen([*command, kind, str(path)]))

    try:
        for _ in range(members_max):
            start()
        for round_number in range(12):
            for _ in range(400):
                producer.produce(topic_name, b"%d" % produced, partition=produced % partitions)
                produced += 1
            producer.flush(30)
            time.sleep(1)
            first, *others = chance.sample(running, 3)
            first.terminate()
            for victim in others:
                victim.kill()
            for victim in (first, *others):
                victim.wait()
                running.remove(victim)
            for _ in range(min(3, members_max - len(running))):
                start()
            if round_number in (4, 8):
                broker.kill()
                broker.start()

        def everything() -> set[str]:
            logs = [step for path in tmp_path.glob("member-*.log") for step in steps(path)]
            return {step.value for step in logs if step.what == "read"}

        eventually(
            lambda: len(everything()) >= produced, "every record is read by somebody", seconds=60
        )
        assert everything() == {str(number) for number in range(produced)}
    finally:
        for process in running:
            process.kill()
            process.wait()
    check_commits(sorted(step for path in tmp_path.glob("member-*.log") for step in steps(path)))


def check_commits(history: list[Step]) -> None:
    """A member begins to read a partition at or behind what was committed before that."""
    committed: dict[int, int] = defaultdict(int)
    for step in history:
        if step.what == "committed":
            committed[step.partition] = max(committed[step.partition], step.offset)
        else:
            assert step.offset >= committed[step.partition], step
    assert committed, "nobody ever committed"
