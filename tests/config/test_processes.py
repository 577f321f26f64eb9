"""One file, several processes: what is derived for each, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.processes import derive_processes

USUAL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://a.example:9092,CONTROLLER://a.example:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "a.example:9093",
    "log.dirs": "/disk-1/ottla,/disk-2/ottla/",
}


def derived(properties: dict[str, str] | None = None, **more: str) -> list[BrokerConfig]:
    written = {name.replace("_", "."): value for name, value in more.items()}
    every = derive_processes({**(properties or USUAL), **written}, "machine-a")
    return [BrokerConfig.from_properties(each) for each in every]


def refusal(properties: dict[str, str] | None = None, **more: str) -> str:
    with pytest.raises(InvalidConfig) as refused:
        derived(properties, **more)
    return str(refused.value)


def test_a_file_that_does_not_speak_of_processes_is_left_as_it_is() -> None:
    assert derive_processes(USUAL, "machine-a") == [USUAL]


def test_the_first_process_is_what_the_file_says() -> None:
    first, *_ = derive_processes({**USUAL, "ottla.processes": "3"}, "machine-a")
    added = {"ottla.processes", "ottla.processes.nodes", "broker.rack"}
    assert {name: value for name, value in first.items() if name not in added} == USUAL


def test_the_others_are_brokers_with_ids_ports_and_directories_of_their_own() -> None:
    first, second, third = derived(ottla_processes="3")
    assert [each.node_id for each in (first, second, third)] == [1, 1001, 2001]
    assert second.process_roles == third.process_roles == ("broker",)
    assert [str(each) for each in second.listeners] == ["PLAINTEXT://:9094"]
    assert [str(each) for each in third.listeners] == ["PLAINTEXT://:9096"]
    assert [str(each) for each in third.advertised_listeners] == ["PLAINTEXT://a.example:9096"]
    assert third.log_dirs == ("/disk-1/ottla/process.3", "/disk-2/ottla/process.3")
    assert third.metadata_log_dir == "/disk-1/ottla/process.3"
    assert third.ottla_processes_nodes == ("1", "1001", "2001")
    assert third.controller_quorum_bootstrap_servers == first.controller_quorum_bootstrap_servers


def test_the_rack_is_the_machine_unless_the_file_names_one() -> None:
    assert {each.broker_rack for each in derived(ottla_processes="2")} == {"machine-a"}
    # A machine of one process among others that have more says so, and has its rack too.
    assert derived(ottla_processes="1")[0].broker_rack == "machine-a"
    assert {each.broker_rack for each in derived(ottla_processes="2", broker_rack="b")} == {"b"}


def test_no_process_moves_when_there_are_more_of_them() -> None:
    few, many = derived(ottla_processes="2"), derived(ottla_processes="9")
    for before, after in zip(few, many, strict=False):
        assert before.listeners == after.listeners
        assert (before.node_id, before.log_dirs) == (after.node_id, after.log_dirs)


def test_every_directory_and_cordon_is_moved() -> None:
    more = {"metadata.log.dir": "/quick", "cordoned.log.dirs": "/disk-1/ottla"}
    second = derived({**USUAL, **more}, ottla_processes="2")[1]
    assert second.metadata_log_dir == "/quick/process.2"
    assert second.cordoned_log_dirs == ("/disk-1/ottla/process.2",)
    every = derived({**USUAL, "cordoned.log.dirs": "*"}, ottla_processes="2")
    assert every[1].cordoned_log_dirs == ("*",)
    plain = {name: value for name, value in USUAL.items() if name != "log.dirs"}
    old = {**plain, "log.dir": "/old", "ottla.processes": "2"}
    assert [each.log_dirs for each in derived(old)] == [("/old",), ("/old/process.2",)]


def test_broker_id_goes_along_with_node_id() -> None:
    plain = {name: value for name, value in USUAL.items() if name != "node.id"}
    old = {**plain, "broker.id": "5", "ottla.processes": "2"}
    assert [each.node_id for each in derived(old)] == [5, 1005]


def test_the_port_step_is_the_smallest_that_fits() -> None:
    alone = {
        **USUAL,
        "process.roles": "broker",
        "listeners": "PLAINTEXT://:9092",
        "advertised.listeners": "PLAINTEXT://a.example:9092",
    }
    assert derived(alone, ottla_processes="3")[2].listeners[0].port == 9094
    protocols = "PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    three = {
        **USUAL,
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,OUT://:9094",
        "advertised.listeners": "PLAINTEXT://a:9092,OUT://b:30001",
        "listener.security.protocol.map": protocols,
    }
    second = derived(three, ottla_processes="2")[1]
    assert [each.port for each in second.listeners] == [9095, 9097]
    assert [each.port for each in second.advertised_listeners] == [9095, 30004]
    moved = derived(ottla_processes="2", ottla_processes_port_step="100")
    assert moved[1].listeners[0].port == 9192


def test_one_process_may_be_told_otherwise() -> None:
    own = {
        "ottla.process.2.listeners": "PLAINTEXT://:7000",
        "ottla.process.2.advertised.listeners": "PLAINTEXT://a.example:7000",
        "ottla.process.2.log.dirs": "/disk-3/ottla",
        "ottla.process.2.node.id": "12",
        "ottla.process.1.num.partitions": "7",
    }
    first, second = derived({**USUAL, **own}, ottla_processes="2")
    assert (first.num_partitions, second.num_partitions) == (7, 1)
    assert (second.node_id, second.listeners[0].port) == (12, 7000)
    assert second.log_dirs == ("/disk-3/ottla",)
    assert first.ottla_processes_nodes == ("1", "12")
    assert not any(name.startswith("ottla.process.") for name in first.originals)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"ottla.processes": "0"}, "at least 1"),
        ({"ottla.processes": "65"}, "no more than 64"),
        ({"ottla.process.2.node.id": "1"}, "processes 1 and 2 .* both have node.id=1"),
        ({"ottla.processes.port.step": "1"}, "processes 1 and 2 .* both listen on port 9093"),
        ({"ottla.process.2.log.dirs": "/disk-1/ottla"}, "both keep their logs in /disk-1/ottla"),
        (
            {"ottla.process.2.advertised.listeners": "PLAINTEXT://a.example:9092"},
            "both be advertised as PLAINTEXT://a.example:9092",
        ),
        ({"ottla.process.3.num.partitions": "1"}, "K is a number from 1 to 2"),
        ({"ottla.process.x.num.partitions": "1"}, "K is a number from 1 to 2"),
        ({"ottla.process.2.ottla.processes": "1"}, "is for all processes"),
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:0"}, "listener needs a port"),
        ({"listeners": "PLAINTEXT://:65535,CONTROLLER://:9093"}, "is no port any more"),
        (
            {
                "controller.quorum.voters": "1@a.example:9093,1001@b.example:9093",
                "controller.quorum.bootstrap.servers": "",
            },
            "the node id 1001 must not be included in the set of voters",
        ),
        (
            {
                "process.roles": "controller",
                "listeners": "CONTROLLER://:9093",
                "advertised.listeners": "CONTROLLER://a.example:9093",
            },
            "is for brokers",
        ),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, str], words: str) -> None:
    import re

    assert re.search(words, refusal({**USUAL, "ottla.processes": "2", **more}))


def test_any_port_stays_any_port() -> None:
    every = derived(
        {**USUAL, "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093"},
        ottla_processes="3",
        advertised_listeners="PLAINTEXT://127.0.0.1:0",
    )
    assert [each.broker_listeners[0].port for each in every] == [0, 0, 0]


@given(
    ports=st.lists(st.integers(1, 40_000), min_size=1, max_size=4, unique=True),
    count=st.integers(2, 64),
    node_id=st.integers(0, 5000),
)
def test_nothing_of_two_processes_is_the_same(ports: list[int], count: int, node_id: int) -> None:
    names = [f"L{at}" for at in range(len(ports))]
    listeners = ",".join(f"{name}://:{port}" for name, port in zip(names, ports, strict=True))
    protocols = ",".join(f"{name}:PLAINTEXT" for name in ("CONTROLLER", *names))
    every = derived(
        {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"{listeners},CONTROLLER://:40001",
            "listener.security.protocol.map": protocols,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "a:40001",
            "inter.broker.listener.name": "L0",
            "log.dirs": "/a,/b",
            "ottla.processes": str(count),
        }
    )
    for seen in (
        [each.node_id for each in every],
        [listener.port for each in every for listener in each.listeners],
        [directory for each in every for directory in each.log_dirs],
    ):
        assert len(set(seen)) == len(seen)
    assert len(every) == count
