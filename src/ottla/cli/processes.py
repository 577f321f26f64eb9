"""``ottla processes``: how the processes of this machine are, and all of them anew one by one."""

from typing import Any, Final

import click

from ottla.cli.output import Column, Output, output_options

_COLUMNS: Final = (
    Column("node_id"),
    Column("state"),
    Column("pid"),
    Column("uptime"),
    Column("restarts"),
    Column("exit_code", wide=True),
    Column("listeners"),
    Column("roles", wide=True),
    Column("directories", wide=True),
)
_POLL_SECONDS: Final = 0.2
_config_option = click.option(
    "-c",
    "--config",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="The server.properties file that `ottla server` was started with.",
)


@click.group()
def processes() -> None:
    """Show and restart the processes of this machine (ottla.processes in the file)."""


@processes.command()
@_config_option
@output_options
def status(*, path: str, output: Output) -> None:
    """Show each process; end with 0 when all serve, else with 1."""
    from ottla.cli.system import wall_ms

    state = _state(path)
    now_ms = wall_ms()
    rows = [
        {**each, "uptime": _uptime(each, now_ms) if each["serves"] else None}
        for each in state["processes"]
    ]
    if output.is_document:
        output.document({**state, "processes": rows})
    else:
        restart = state["restart"]
        if output.form != "tsv":
            output.line(f"supervisor:  {state['pid']}, {state['state']}")
            output.line(f"restart:     {_told(restart)}")
            output.line("")
        output.rows("processes", _COLUMNS, rows)
    if not all(each["serves"] for each in rows):
        raise SystemExit(1)


@processes.command()
@_config_option
@click.option("--wait", is_flag=True, help="Wait until all are restarted; end with 1 if not.")
@output_options
def restart(*, path: str, wait: bool, output: Output) -> None:
    """Restart all processes, one by one, each only while the cluster is in sync."""
    import os
    import signal
    import time

    before = _state(path)
    os.kill(before["pid"], signal.SIGHUP)
    if not wait:
        output.talk("asked; `ottla processes status` tells how far it is")
        return
    while True:
        time.sleep(_POLL_SECONDS)
        asked = _state(path)["restart"]
        if asked["count"] > before["restart"]["count"] and asked["state"] != "going":
            break
    if output.is_document:
        output.document({"restart": asked})
    else:
        output.line(_told(asked))
    if asked["state"] != "done":
        raise SystemExit(1)


def _state(path: str) -> dict[str, Any]:
    from ottla.cli.node_config import config_of_file
    from ottla.server.supervision.state_file import read_state

    return read_state(config_of_file(path).log_dirs)


def _uptime(process: dict[str, Any], now_ms: int) -> str:
    seconds = max(0, now_ms - process["since_ms"]) // 1000
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    clock = f"{hours:02}:{minutes:02}:{rest:02}"
    return f"{days}d {clock}" if days else clock


def _told(restart: dict[str, Any]) -> str:
    return f"{restart['state']}: {restart['reason']}" if restart["reason"] else restart["state"]
