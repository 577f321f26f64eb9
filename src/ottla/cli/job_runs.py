"""How the commands of ``ottla jobs`` run their work: on Spark, or in this process.

``--master`` takes any address of Spark, and ``none`` runs the same work right here.
"""

import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from ottla.cli.clients import open_admin
from ottla.cli.files import parse_assignments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.cli.settings import ClientSettings
    from ottla.spark.kafka_settings import KafkaSettings
    from ottla.spark.source.options import SourceOptions

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

NEEDED: Final = ("numba", "pyarrow", "pyspark")
HERE: Final = "none"
_MASTER: Final = re.compile(r"local(\[.+])?|local-cluster\[.+]|yarn|(spark|k8s|sc)://.+")


def job_options(command: F) -> F:
    """Give a command ``--master`` and ``--dry-run``."""
    dry_run = click.option(
        "--dry-run", is_flag=True, help="Say what would be done, and do nothing."
    )
    master = click.option(
        "--master",
        default="local[*]",
        show_default=True,
        help="Where Spark runs: local[N], spark://..., yarn, k8s://...; none: without Spark.",
    )
    return master(dry_run(command))


def store_options(command: F) -> F:
    """Give a command ``--remote-store`` and ``--store-setting``."""
    store = click.option(
        "--remote-store", required=True, metavar="URL", help="Where the segments lie."
    )
    settings = click.option(
        "--store-setting",
        "store_settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="endpoint, region, access.key.id, secret.access.key or allow.http of the store; "
        "may be repeated.",
    )
    return store(settings(command))


def named_settings(store_settings: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Those of ``--store-setting``, by the names that brokers have for them."""
    given = parse_assignments(store_settings, "--store-setting")
    return tuple((f"ottla.remote.store.{name}", value) for name, value in given.items())


def need_spark() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(f"this needs {', '.join(missing)}: pip install 'ottla[spark]'")


def need_cluster(client: "ClientSettings") -> None:
    """Hear of a broker before work begins that would wait for one for long."""
    with open_admin(client) as admin:
        admin.cluster.refresh()


class Jobs(click.Group):
    """What a job or its source refuses is said in a line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, RuntimeError) as error:
            if not _is_told(error):
                raise
            raise click.ClickException(str(error)) from error


def _is_told(error: Exception) -> bool:
    """Whether it was made for people; loaded only now, since most jobs end without."""
    from ottla.spark.codec.rows import UnwritableTable
    from ottla.spark.errors import BadOption, DataLoss
    from ottla.spark.java import JavaMissing

    return isinstance(error, (BadOption, DataLoss, JavaMissing, UnwritableTable))


class Workers:
    """The workers of a job; use it in a ``with`` block."""

    def __init__(self, master: str, name: str) -> None:
        if master != HERE and not _MASTER.fullmatch(master):
            raise click.BadParameter(
                f"{master!r} is no place for Spark; expected local[N], spark://HOST:PORT, yarn, "
                f"k8s://..., sc://..., or {HERE} to work without it",
                param_hint="--master",
            )
        self._master = master
        self._name = name
        self._spark: SparkSession | None = None
        self._starts_jvm = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._spark is not None:
                self._spark.stop()
        finally:
            if self._starts_jvm:
                from ottla.spark import jvm

                jvm.end()

    def run(self, items: Sequence[T], work: Callable[[T], R]) -> Iterator[R]:
        """What ``work`` makes of each item, as it is done; Spark starts when it is needed."""
        from ottla.spark.jobs.tasks import run_here, run_on_spark, session

        if self._master == HERE or not items:
            yield from run_here(items, work)
            return
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException, PythonException

        from ottla.spark import jvm

        if self._spark is None:
            self._starts_jvm = not jvm.is_there()
            try:
                self._spark = session(self._master, self._name)
            except (PySparkException, Py4JError) as error:
                said = reason(str(error)).splitlines()[0]
                raise click.ClickException(f"no Spark at {self._master}: {said}") from error
        try:
            yield from run_on_spark(self._spark, items, work)
        except PythonException as error:
            raise click.ClickException(reason(str(error))) from error


def reason(text: str) -> str:
    """The line of a worker's traceback that says why; all of it if there is none."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if re.match(r"[\w.]+(Error|Exception)?: ", line)]
    return said[-1] if said else text


def kafka_settings(client: "ClientSettings") -> "KafkaSettings":
    """How tasks reach the cluster that a command was told of."""
    from ottla.cli.clients import security
    from ottla.spark.kafka_settings import KafkaSettings

    return KafkaSettings(client.bootstrap_servers, client.client_id, security=security(client))


def cluster_options(client: "ClientSettings") -> dict[str, str]:
    """The same, as options of the Spark source or sink."""
    from ottla.cli.clients import security
    from ottla.spark.kafka_settings import security_options

    servers = {"kafka.bootstrap.servers": client.bootstrap_servers}
    return servers | security_options(security(client))


def source_options(
    topic: str, named: tuple[str, ...], client: "ClientSettings", **fixed: str
) -> "SourceOptions":
    """The options of the Spark source, for a job on one topic; schemas are found, too."""
    from ottla.spark.errors import BadOption
    from ottla.spark.registry import RegistryError
    from ottla.spark.source.options import SourceOptions

    given = parse_assignments(named, "--option")
    kept = {**cluster_options(client), "subscribe": topic, **fixed}
    try:
        parsed = SourceOptions.parse({**given, **kept, "includeHeaders": "true"})
        return replace(parsed, formats=parsed.formats.reading())
    except (BadOption, RegistryError) as error:
        raise click.UsageError(str(error)) from None
