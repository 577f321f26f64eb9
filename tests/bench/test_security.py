"""The rows of secured listeners: clients get in as the row says, and figures come of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.entries import handshakes, logins
from benchmarks.guarded import ACLS, SETTINGS, guarded_requests
from benchmarks.measures import OF_NO_ACLS
from benchmarks.one_record import error_code, produce_frame
from benchmarks.report import Results, table
from benchmarks.secured import AUTHORIZER, MECHANISMS, USER, SecuredBroker
from benchmarks.throughput import consume_librdkafka, produce_librdkafka
from benchmarks.topic import topic_on
from tools.kafka_peer.broker_process import ottla

from ottla.common.errors import ErrorCode

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(ottla(), tmp_path_factory.mktemp("secured")) as running:
        yield running


def test_records_go_and_come_over_tls(broker: SecuredBroker) -> None:
    settings = broker.over_tls().librdkafka
    with topic_on(broker, "over-tls") as topic:
        produced = produce_librdkafka(
            broker, topic, records=2_000, size=1_000, batch=16 << 10, settings=settings
        )
        consumed = consume_librdkafka(broker, topic, records=2_000, size=1_000, settings=settings)
    assert produced["throughput"][0] > 0
    assert consumed["throughput"][0] > 0
    assert settings["bootstrap.servers"] == f"127.0.0.1:{broker.tls_port}"


def test_handshakes_are_counted(broker: SecuredBroker) -> None:
    figures = handshakes(broker, seconds=0.3)
    assert figures["rate"][0] > 0
    assert figures["cpu"][0] > 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_are_counted(broker: SecuredBroker, mechanism: str) -> None:
    figures = logins(broker, mechanism=mechanism, seconds=0.3)
    assert figures["rate"][0] > 0
    assert figures["cpu"][0] > 0


def test_the_client_may_write_by_its_acl_alone(tmp_path: Path) -> None:
    with SecuredBroker(ottla(), tmp_path, AUTHORIZER) as broker, topic_on(broker, "one") as topic:
        frame = produce_frame(topic, 0)
        with broker.log_in("PLAIN") as asking:
            assert error_code(asking.ask(frame)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            broker.allow([topic], ["somebody"])
            assert error_code(asking.ask(frame)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            broker.allow([topic], [USER])
            asking.until_taken(frame, error_code)


def test_requests_with_acls_are_told_as_a_share_of_those_with_none(tmp_path: Path) -> None:
    rows = guarded_requests(ottla(), tmp_path, warm_up_seconds=0.1, turns=1)
    assert list(rows) == list(SETTINGS)
    assert all(figures["requests"][0] > 0 for figures in rows.values())
    assert rows[ACLS]["of no ACLs"][0] > 0
    assert rows[ACLS]["of no authorizer"][0] > 0


@pytest.mark.parametrize(("ours", "mark"), [(0.96, False), (0.94, True)])
def test_a_share_is_judged_by_itself_whatever_theirs_is(ours: float, mark: bool) -> None:
    results = Results()
    results.add("ottla", "row", {"share": (ours, OF_NO_ACLS)})
    results.add("kafka", "row", {"share": (0.5, OF_NO_ACLS)})
    assert table(results).endswith("*") == mark
