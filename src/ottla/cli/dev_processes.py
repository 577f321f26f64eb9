"""``ottla dev -p 2``: several processes of one machine, as ottla.processes, by one command.

The first has the directory as it is, so that data of a single broker can be taken over. A process
that ends is started again; Ctrl-C stops all in order.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.node_config import process_configs
from ottla.config.listeners import parse_listener
from ottla.config.processes import COUNT
from ottla.config.properties import format_properties
from ottla.server.defaults import development_properties
from ottla.server.local_cluster import free_ports
from ottla.server.prepare import prepare_processes
from ottla.server.shared_server import StartRefused
from ottla.server.supervision.left_out import check_left_out
from ottla.server.supervision.start import run_processes

_FILE: Final = "server.properties"
_PROTOCOLS: Final = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}


def run_dev_processes(
    directory: str,
    processes: int,
    host: str,
    port: int | None,
    written: Mapping[str, str],
    level: str,
    banner: Callable[[str, str | None], str],
) -> int:
    """Serve until Ctrl-C; the exit code."""
    controller = free_ports(1)[0] if port is None else port + 1
    reached = "127.0.0.1" if host in {"", "0.0.0.0"} else host  # noqa: S104
    properties = {
        **development_properties(directory, port=port or 0, host=host),
        "listeners": f"PLAINTEXT://{_bracketed(host)}:{port or 0},"
        f"CONTROLLER://{_bracketed(reached)}:{controller}",
        "controller.quorum.bootstrap.servers": f"{_bracketed(reached)}:{controller}",
        COUNT: str(processes),
        "ottla.http.listeners": f"HTTP://{_bracketed(host)}:0",
        **written,
    }
    configs = process_configs(properties)

    def ready(report: dict[str, Any]) -> None:
        from ottla.cli.dev import shown_address

        served = [
            parse_listener(text, _PROTOCOLS)
            for process in report["processes"]
            for text in process["listeners"]
            if text.startswith("PLAINTEXT:")
        ]
        servers = ",".join(shown_address(each.host, each.port) for each in served)
        http = next((shown_address(host, port) for port in report["http_ports"]), None)
        click.echo(banner(servers, http))

    try:
        check_left_out(configs)
        prepare_processes(configs)
        file = Path(directory) / _FILE
        file.write_text(format_properties(properties))
        return run_processes(configs, [str(file), "--log-level", level], ready=ready)
    except StartRefused as refusal:
        raise click.ClickException(str(refusal)) from refusal


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
