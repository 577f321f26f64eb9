"""``ottla sim``: a whole cluster in one process, on a simulated clock, network and disk."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.output import Column, Output, Row, output_options

if TYPE_CHECKING:
    from ottla.simulation.run import Report

COLUMNS = [
    Column("seed"),
    Column("result"),
    Column("simulated_seconds"),
    Column("cpu_seconds"),
    Column("times_real_time"),
    Column("progress"),
    Column("trace"),
    Column("steps", wide=True),
    Column("deliveries", wide=True),
    Column("scenario", wide=True),
    Column("faults", wide=True),
]


def _seeds(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> range | None:
    from ottla.simulation.seeds import parse_seeds

    if value is None:
        return None
    try:
        return parse_seeds(value)
    except ValueError:
        raise click.BadParameter(f"{value}: not a seed, nor a range of seeds as 1-200") from None


def _scenario(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    from ottla.simulation.scenario import SCENARIOS

    if value not in SCENARIOS:
        raise click.BadParameter(f"{value}: there are {', '.join(SCENARIOS)}")
    return value


@click.command()
@click.option("--seed", "one", type=int, help="Run one seed.")
@click.option("--seeds", callback=_seeds, metavar="A-B", help="Run a range of seeds.")
@click.option("--replay", type=int, metavar="SEED", help="Run one seed, and tell all of it.")
@click.option("--scenario", "--profile", "name", default="swarm", callback=_scenario,
              help="Which faults there are. [default: drawn from the seed]")  # fmt: skip
@click.option("--time", "seconds", type=click.FloatRange(1, 86_400), metavar="SECONDS",
              help="Simulated time with faults. [default: 45]")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes. [default: one per core]")
@click.option("--keep-going", is_flag=True, help="Do not end with the first failure.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show how far it is.")
@output_options
def sim(*, one: int | None, seeds: range | None, replay: int | None, output: Output,
        **options: Any) -> None:  # fmt: skip
    """Try to break a cluster: real servers on a simulated clock, network and disks.

    Each seed is one run, always the same: faults come and go, then all is healed, and the cluster
    must come to rest. What was acknowledged must be there; the checkers look at every step. A run
    that fails prints its seed, and --replay tells everything that happened in it.
    """
    if sum(each is not None for each in (one, seeds, replay)) != 1:
        raise click.UsageError("One of --seed, --seeds and --replay is needed.")
    if replay is not None:
        _replay(replay, output, options)
        return
    _run(seeds or range(one or 0, (one or 0) + 1), output, options)


def _run(seeds: range, output: Output, options: dict[str, Any]) -> None:
    from ottla.simulation.seeds import run_seeds

    reports = run_seeds(
        seeds,
        name=options["name"],
        seconds=options["seconds"],
        jobs=1 if len(seeds) == 1 else options["jobs"],
        goes_on=options["keep_going"],
    )
    rows = _told(reports, len(seeds), output, options)
    if output.is_document:
        output.document({"runs": list(rows)})
    elif len(seeds) > 1 and output.form != "tsv":
        list(rows)
    else:
        output.stream(COLUMNS, rows)
    if output.failed:
        sys.exit(1)


def _told(
    reports: "Iterator[Report]", count: int, output: Output, options: dict[str, Any]
) -> Iterator[Row]:
    """The rows, and meanwhile how far it is; failures are told at once."""
    shows = not options["quiet"] and sys.stderr.isatty() and count > 1
    done = 0
    simulated = cpu = 0.0
    for report in reports:
        done += 1
        simulated += report.simulated_seconds
        cpu += report.cpu_seconds
        if shows:
            factor = simulated / max(cpu, 0.001)
            click.echo(f"\r\x1b[K{done} of {count} seeds, {factor:.0f} times", nl=False, err=True)
        if not report.is_ok:
            if shows:
                click.echo("\r\x1b[K", nl=False, err=True)
            _failure(report, output, options)
        yield _row(report)
    if shows:
        click.echo("\r\x1b[K", nl=False, err=True)
    if count > 1:
        factor = simulated / max(cpu, 0.001)
        output.talk(
            f"{done} of {count} seeds: {simulated:.0f} simulated seconds in {cpu:.1f} s of CPU, "
            f"{factor:.0f} times real time"
        )


def _row(report: "Report") -> Row:
    factor = round(report.simulated_seconds / max(report.cpu_seconds, 0.001))
    row = report.as_dict()
    return {**row, "result": report.failure or "ok", "times_real_time": factor}


def _failure(report: "Report", output: Output, options: dict[str, Any]) -> None:
    command = f"ottla sim --replay {report.seed}"
    if options["name"] != "swarm":
        command += f" --scenario {options['name']}"
    if options["seconds"] is not None:
        command += f" --time {options['seconds']:g}"
    if not output.is_document:
        output.talk(f"seed {report.seed}: {report.scenario}")
        for line in report.details:
            output.talk(f"  {line}")
    message = f"{report.failure}; to see all of it: {command}"
    output.error("SIMULATION_FAILED", message, seed=report.seed)


def _replay(seed: int, output: Output, options: dict[str, Any]) -> None:
    from ottla.simulation.run import run_seed

    tell = output.talk if output.is_document else output.line
    report = run_seed(seed, options["name"], options["seconds"], tell=tell, tells_deliveries=True)
    if output.is_document:
        if not report.is_ok:
            output.error("SIMULATION_FAILED", report.failure or "", seed=seed)
        output.document({"runs": [_row(report)]})
    else:
        for line in report.details if report.failure else ():
            output.talk(line)
        output.line(f"{report.failure or 'ok'}, trace {report.trace}")
    if not report.is_ok:
        sys.exit(1)
