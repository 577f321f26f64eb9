"""The figures of limited clients: there while they are used, and not more than so many."""

import pytest
from tests.handlers.test_quotas import Limited, context

from ottla.observability.metrics import Gauge, Registry
from ottla.observability.names import parse_name
from ottla.requests import quota_metrics
from ottla.requests.quota_metrics import register_rates, register_tokens

HOUR = 3_600


def shown(registry: Registry) -> list[str]:
    return [str(name) for name in registry.names()]


def value(registry: Registry, name: str) -> float:
    gauge = registry.get(parse_name(name))
    assert isinstance(gauge, Gauge)
    return gauge.read()


def test_the_rate_of_a_bucket_is_shown_while_it_is_used() -> None:
    registry, limited = Registry(), Limited((("client-id", None),), producer_byte_rate=1e6)
    register_rates(registry, limited.quotas)
    limited.produce(1000, client_id="a,b")
    assert shown(registry) == ["kafka.server:type=Produce,user=,client-id=a%2Cb/byte-rate"]
    assert 100 < value(registry, shown(registry)[0]) < 130
    limited.broker.scheduler.run_for(HOUR)
    limited.produce(1000, client_id="c")
    assert shown(registry) == ["kafka.server:type=Produce,user=,client-id=c/byte-rate"]


def test_tokens_are_shown() -> None:
    registry, limited = Registry(), Limited((("user", "u"),), controller_mutation_rate=2)
    register_tokens(registry, limited.quotas)
    limited.quotas.charge(context(7), strict=True)(12)
    (name,) = shown(registry)
    assert name == "kafka.server:type=ControllerMutation,user=u,client-id=/tokens"
    assert value(registry, name) == 10


def test_not_more_than_so_many_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_metrics, "SHOWN_MAX", 3)
    registry, limited = Registry(), Limited((("client-id", None),), producer_byte_rate=1e6)
    register_rates(registry, limited.quotas)
    for n in range(5):
        limited.produce(10, client_id=f"c{n}")
    assert len(shown(registry)) == 3
    assert len(limited.quotas.produce.buckets) == 5
