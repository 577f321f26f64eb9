"""The processes of one machine, derived from one server.properties (``ottla.processes=N``).

The first process is what the file says: its node id, its ports, its directories, its roles. The
K-th is a broker with the same settings, and (K - 1) steps further:

- its ``node.id`` is 1000 further (``ottla.processes.node.id.step``), so that the ids of other
  machines, which are near those of this one, stay free;
- each of its ports is a step further. The step is the smallest with which no two listeners of a
  machine share a port, whatever N is: 2 for the usual 9092 and 9093, 1 for a single listener. So
  no process moves when N grows;
- each of its directories is ``process.K`` within the directory of the first, on the same disk;
- ``ottla.http.listeners`` is the supervisor's, which shows all of them; each process has a port of
  its own on loopback, which it finds itself;
- its ``broker.rack``, if the file names none, is the name of the machine, as for the first.

``ottla.process.K.KEY=VALUE`` says otherwise for one process. What collides is refused.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.keys.processes import PROCESSES_MAX
from ottla.config.listeners import Listener

COUNT: Final = "ottla.processes"
NODES: Final = "ottla.processes.nodes"
HTTP: Final = "ottla.http.listeners"
OF_SUPERVISOR: Final = "ottla.processes.http.listeners"
OF_PROCESS: Final = "HTTP://127.0.0.1:0"
_OWN: Final = re.compile(r"ottla\.process\.([^.]*)\.(.+)")
_ANYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104
_PORT_MAX: Final = 65535
_SHARED: Final = (
    COUNT,
    NODES,
    HTTP,
    OF_SUPERVISOR,
    "ottla.processes.node.id.step",
    "ottla.processes.port.step",
)
"""What is said once for all processes."""


def derive_processes(properties: Mapping[str, str], machine: str) -> list[dict[str, str]]:
    """The settings of each process of ``machine``, the first one's first; InvalidConfig if none."""
    config = BrokerConfig(properties)
    count = config.ottla_processes
    shared, own = _split(properties, count)
    if COUNT in properties and config.is_broker and config.broker_rack is None:
        shared["broker.rack"] = machine
    if count == 1:
        return [{**shared, **own[1]}]
    _check(config)
    if config.http_listeners:
        shared[OF_SUPERVISOR], shared[HTTP] = shared[HTTP], OF_PROCESS
    step = _port_step(config)
    every = [{**shared, **own[1]}]
    for number in range(2, count + 1):
        every.append({**shared, **_further(config, number, step), **own[number]})
        every[-1].pop("broker.id", None)
        every[-1].pop("log.dir", None)
    configs = [BrokerConfig(each) for each in every]
    _check_distinct(configs)
    ids = ",".join(str(each.node_id) for each in configs)
    return [{**each, NODES: ids} for each in every]


def _split(
    properties: Mapping[str, str], count: int
) -> tuple[dict[str, str], dict[int, dict[str, str]]]:
    """What is for all processes, and what is for each alone."""
    shared: dict[str, str] = {}
    own: dict[int, dict[str, str]] = {number: {} for number in range(1, count + 1)}
    for name, value in properties.items():
        match = _OWN.fullmatch(name)
        if match is None:
            shared[name] = value
            continue
        number = int(match[1]) if match[1].isascii() and match[1].isdecimal() else 0
        if number not in own:
            raise InvalidConfig(f"{name}: {COUNT} is {count}, so K is a number from 1 to {count}")
        if match[2] in _SHARED:
            raise InvalidConfig(f"{name}: {match[2]} is for all processes of the machine")
        own[number][match[2]] = value
    return shared, own


def _check(config: BrokerConfig) -> None:
    if not config.is_broker:
        raise InvalidConfig(f"{COUNT} is for brokers: a controller alone is one process")
    if any(listener.port == 0 for listener in config.controller_listeners):
        raise InvalidConfig(
            f"with {COUNT} above 1 the controller's listener needs a port: the others look for it"
        )


def _further(config: BrokerConfig, number: int, step: int) -> dict[str, str]:
    """What the process of this number has of its own."""
    by = number - 1
    settings = {
        "process.roles": "broker",
        "node.id": str(config.node_id + by * config.ottla_processes_node_id_step),
        "listeners": _moved(config.broker_listeners, by * step),
        "log.dirs": ",".join(_within(config.log_dirs, number)),
    }
    if config.values["advertised.listeners"] is not None:
        settings["advertised.listeners"] = _moved(config.advertised_broker_listeners, by * step)
    if config.values["metadata.log.dir"] is not None:
        settings["metadata.log.dir"] = _within([config.metadata_log_dir], number)[0]
    if config.cordoned_log_dirs and "*" not in config.cordoned_log_dirs:
        settings["cordoned.log.dirs"] = ",".join(_within(config.cordoned_log_dirs, number))
    return settings


def _within(directories: Iterable[str], number: int) -> list[str]:
    return [process_directory(directory, number) for directory in directories]


def process_directory(directory: str, number: int) -> str:
    """That of the process of this number; no name of a partition, so that the first passes it."""
    return f"{directory.rstrip('/')}/process.{number}"


def _moved(listeners: Iterable[Listener], by: int) -> str:
    moved = []
    for listener in listeners:
        port = listener.port + by if listener.port > 0 else listener.port
        if port > _PORT_MAX:
            raise InvalidConfig(f"{listener} moved by {by} for {COUNT} is no port any more")
        moved.append(str(listener._replace(port=port)))
    return ",".join(moved)


def _port_step(config: BrokerConfig) -> int:
    """The smallest that keeps all listeners of as many processes as there may be apart."""
    if config.ottla_processes_port_step is not None:
        return config.ottla_processes_port_step
    ports = {listener.port for listener in config.listeners if listener.port > 0}
    moving = {listener.port for listener in config.broker_listeners if listener.port > 0}
    step = 1
    while _meet(ports, moving, step):
        step += 1
    return step


def _meet(ports: set[int], moving: set[int], step: int) -> bool:
    taken = set(ports)
    for by in range(1, PROCESSES_MAX):
        moved = {port + by * step for port in moving}
        if taken & moved:
            return True
        taken |= moved
    return False


def _check_distinct(configs: list[BrokerConfig]) -> None:
    for (first, one), (second, other) in combinations(enumerate(configs, 1), 2):
        names = f"processes {first} and {second} of {COUNT}"
        if one.node_id == other.node_id:
            raise InvalidConfig(f"{names} would both have node.id={one.node_id}")
        for listener in other.listeners:
            if any(_same_address(listener, each) for each in one.listeners):
                raise InvalidConfig(f"{names} would both listen on port {listener.port}")
        if one.values["advertised.listeners"] is not None:
            for listener in other.advertised_broker_listeners:
                if listener.port > 0 and listener in one.advertised_broker_listeners:
                    raise InvalidConfig(f"{names} would both be advertised as {listener}")
        own = {*one.log_dirs, one.metadata_log_dir}
        for directory in (*other.log_dirs, other.metadata_log_dir):
            if directory in own:
                raise InvalidConfig(f"{names} would both keep their logs in {directory}")


def _same_address(one: Listener, other: Listener) -> bool:
    if one.port <= 0 or one.port != other.port:
        return False
    return one.host == other.host or not _ANYWHERE.isdisjoint((one.host, other.host))
