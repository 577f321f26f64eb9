"""How many processes serve on this machine: settings that Apache Kafka does not have."""

from typing import Final

from ottla.config.definition import ConfigSet, Int, List, OptionalInt
from ottla.config.validators import at_least, between

PROCESSES_MAX: Final = 64


class ProcessKeys(ConfigSet):
    """Several brokers on one machine, from one file (ottla's own)."""

    ottla_processes = Int(
        1,
        "How many broker processes this machine runs; ids, ports and directories of all but the "
        "first are derived, and `ottla.process.K.KEY` sets a KEY of the K-th alone.",
        between(1, PROCESSES_MAX),
    )
    ottla_processes_node_id_step = Int(
        1000, "How far the node ids of two neighbouring processes are apart.", at_least(1)
    )
    ottla_processes_port_step = OptionalInt(
        None,
        "How far the ports of two neighbouring processes are apart; without it the smallest step "
        "with which no two listeners share a port.",
        at_least(1),
    )
    ottla_processes_nodes = List(
        (), "The node ids of all processes of this machine: derived, never written.", internal=True
    )
    ottla_processes_http_listeners = List(
        (), "Where the supervisor shows how all are: derived, never written.", internal=True
    )
