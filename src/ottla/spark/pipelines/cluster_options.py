"""How flows reach the brokers of their pipeline: as who, and how encrypted."""

from collections.abc import Mapping
from typing import Final

from ottla.spark.kafka_settings import security_options
from ottla.spark.pipelines.model import Pipeline

_SERVERS: Final = "kafka.bootstrap.servers"


def with_cluster(pipeline: Pipeline, given: Mapping[str, str]) -> dict[str, str]:
    """Options of a source or sink of the pipeline, which reach its brokers unless they say else."""
    return with_security(pipeline, {_SERVERS: pipeline.bootstrap_servers, **given})


def with_security(pipeline: Pipeline, given: Mapping[str, str]) -> dict[str, str]:
    """Who we are, in front of options that name the brokers of the pipeline.

    Other brokers are not told, and neither is who names none.
    """
    named = [str(value) for name, value in given.items() if name.lower() == _SERVERS]
    if named != [pipeline.bootstrap_servers]:
        return dict(given)
    return {**security_options(pipeline.security), **given}
