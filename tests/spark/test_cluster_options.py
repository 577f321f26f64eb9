"""Which brokers are told who a pipeline is."""

from dataclasses import replace
from pathlib import Path

import pytest

from ottla.client.security import security_of
from ottla.spark.pipelines.cluster_options import with_cluster, with_security
from ottla.spark.pipelines.project import parse

SECURITY = security_of(
    {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": "s",
    }
)
PIPELINE = replace(
    parse(
        {"name": "p", "bootstrap_servers": "one:1,two:2", "libraries": []}, Path("pipeline.toml")
    ),
    security=SECURITY,
)
OWN = {f"kafka.{name}": value for name, value in SECURITY.settings}


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "Kafka.Bootstrap.Servers"])
def test_brokers_of_the_pipeline_are_told_who_reads(name: str) -> None:
    given = {name: "one:1,two:2", "subscribe": "t"}
    assert with_security(PIPELINE, given) == {**OWN, **given}
    assert with_cluster(PIPELINE, {"topic": "t"}) == {
        **OWN,
        "kafka.bootstrap.servers": "one:1,two:2",
        "topic": "t",
    }


def test_what_is_given_goes_before() -> None:
    given = {"kafka.bootstrap.servers": "one:1,two:2", "kafka.sasl.username": "b"}
    assert with_security(PIPELINE, given) == {**OWN, **given}


@pytest.mark.parametrize("address", ["three:3", "one:1,two:2,three:3", ""])
def test_other_brokers_are_not(address: str) -> None:
    given = {"kafka.bootstrap.servers": address, "topic": "t"}
    assert with_security(PIPELINE, given) == with_cluster(PIPELINE, given) == given
    assert with_security(PIPELINE, {"topic": "t"}) == {"topic": "t"}
