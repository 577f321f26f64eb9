"""Counting is plain; rates, percentiles and the /metrics page come from reading."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.observability.exposition import (
    CLOCK_LINES,
    SLICE_LINES,
    SLICE_SECONDS,
    exposition,
    slices,
)
from ottla.observability.metrics import Counter, Gauge, Histogram, Meter, Registry, State, Value
from ottla.observability.names import Dialect, Form, MetricName, parse_name, prometheus_name

MESSAGES_IN = MetricName("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec")


@pytest.mark.parametrize(
    ("mbean", "form", "name"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
            Form.COUNTER,
            "kafka_server_brokertopicmetrics_messagesin_total",
        ),
        (
            "kafka.server:type=BrokerTopicMetrics,name=TotalProduceRequestsPerSec,topic=t",
            Form.COUNTER,
            "kafka_server_brokertopicmetrics_totalproducerequests_total",
        ),
        (
            "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
            Form.GAUGE,
            "kafka_server_replicamanager_underreplicatedpartitions",
        ),
        (
            "kafka.controller:type=KafkaController,name=ActiveControllerCount",
            Form.GAUGE,
            "kafka_controller_kafkacontroller_activecontrollercount",
        ),
        (
            "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
            Form.COUNTER,
            "kafka_controller_controllerstats_uncleanleaderelections_total",
        ),
        (
            "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
            Form.GAUGE,
            "kafka_network_socketserver_networkprocessoravgidle_percent",
        ),
        (
            "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
            Form.GAUGE,
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        ),
        ("kafka.log:type=Log,name=Size,topic=t,partition=0", Form.GAUGE, "kafka_log_log_size"),
        (
            "kafka.cluster:type=Partition,name=UnderMinIsr,topic=t,partition=0",
            Form.GAUGE,
            "kafka_cluster_partition_underminisr",
        ),
        (
            "kafka.server:type=raft-metrics/current-leader",
            Form.GAUGE,
            "kafka_server_raftmetrics_current_leader",
        ),
        (
            "kafka.server:type=socket-server-metrics,listener=PLAINTEXT/connection-count",
            Form.GAUGE,
            "kafka_server_socket_server_metrics_connection_count",
        ),
    ],
)
def test_dashboards_find_the_names_that_they_know(mbean: str, form: Form, name: str) -> None:
    metric = parse_name(mbean)
    assert str(metric) == mbean
    assert prometheus_name(metric, form) == name


def test_a_plain_name_stays_as_it_is() -> None:
    assert prometheus_name(MetricName("", "", "kafka_consumergroup_lag"), Form.GAUGE) == (
        "kafka_consumergroup_lag"
    )


def test_what_is_no_name_of_a_metric_is_refused() -> None:
    with pytest.raises(ValueError, match="not the name of a metric"):
        parse_name("kafka.server")


def test_the_page_shows_every_instrument_in_its_form() -> None:
    registry = Registry()
    registry.counter(MESSAGES_IN).value += 3
    registry.counter(MESSAGES_IN.tagged(topic='a"b')).value += 2
    registry.gauge(MetricName("kafka.server", "ReplicaManager", "LeaderCount"), lambda: 7)
    registry.gauge(MetricName("kafka.server", "X", "Y")).value = 0.5
    state = State()
    state.value = "leader"
    registry.register(MetricName("kafka.server", "raft-metrics", attribute="current-state"), state)
    histogram = registry.histogram(
        MetricName("kafka.network", "RequestMetrics", "TotalTimeMs", (("request", "Produce"),))
    )
    histogram.record(4)
    assert exposition(registry).splitlines() == [
        "# TYPE kafka_network_requestmetrics_totaltimems summary",
        'kafka_network_requestmetrics_totaltimems_count{request="Produce"} 1',
        'kafka_network_requestmetrics_totaltimems_sum{request="Produce"} 4',
        *(
            f'kafka_network_requestmetrics_totaltimems{{request="Produce",quantile="{q}"}} 4'
            for q in ("0.5", "0.75", "0.95", "0.98", "0.99", "0.999")
        ),
        "# TYPE kafka_server_brokertopicmetrics_messagesin_total counter",
        "kafka_server_brokertopicmetrics_messagesin_total 3",
        r'kafka_server_brokertopicmetrics_messagesin_total{topic="a\"b"} 2',
        "# TYPE kafka_server_raftmetrics_current_state untyped",
        'kafka_server_raftmetrics_current_state{current_state="leader"} 1',
        "# TYPE kafka_server_replicamanager_leadercount gauge",
        "kafka_server_replicamanager_leadercount 7",
        "# TYPE kafka_server_x_y gauge",
        "kafka_server_x_y 0.5",
        "# TYPE ottla_metrics_dropped_series gauge",
        "ottla_metrics_dropped_series 0",
    ]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5))
def test_the_page_is_one_that_prometheus_reads(values: list[float]) -> None:
    registry = Registry()
    for index, value in enumerate(values):
        registry.gauge(MetricName("kafka.log", "Log", "Size", (("i", str(index)),))).value = value
    line = re.compile(r'kafka_log_log_size\{i="\d"\} (NaN|[+-]Inf|-?[0-9.]+(e[+-]?\d+)?)')
    for text in exposition(registry).splitlines()[1 if values else 0 : -2]:
        assert line.fullmatch(text), text


def test_a_page_of_many_series_is_made_in_slices_of_bounded_size() -> None:
    registry, read, made = Registry(), list[int](), list[str]()

    def values() -> Iterator[Value | None]:
        for index in range(10_000):
            read.append(index)
            yield None if index % 2 else ((("i", str(index)),), index)

    registry.series(MetricName("kafka.log", "Log", "Size"), values)
    for piece in slices(registry, lambda: 0.0, lines_max=3_000):
        assert len(read) <= (len(made) + 1) * SLICE_LINES  # nothing is read ahead
        made.append(piece)
    page = "".join(made)
    assert max(piece.count("\n") for piece in made) <= SLICE_LINES + 2
    assert page.count("kafka_log_log_size{") == 3_000
    assert page.endswith("ottla_metrics_dropped_series 2000\n")


def test_a_slice_ends_when_its_time_is_over() -> None:
    registry, now = Registry(), [0.0]

    def slow() -> Iterator[Value | None]:
        for index in range(SLICE_LINES):
            now[0] += SLICE_SECONDS / CLOCK_LINES
            yield (("i", str(index)),), index

    registry.series(MetricName("kafka.log", "Log", "Size"), slow)
    assert len(list(slices(registry, lambda: now[0]))) >= SLICE_LINES // CLOCK_LINES // 2


@pytest.mark.parametrize(
    ("mbean", "form", "names"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
            Form.COUNTER,
            ("messagesinpersec", "messagesinpersec_total", "messagesinpersec_count"),
        ),
        (
            "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec",
            Form.COUNTER,
            ("isrshrinkspersec", "isrshrinkspersec_total", "total_isrshrinkspersec_count"),
        ),
    ],
)
def test_each_dialect_has_its_own_names(mbean: str, form: Form, names: tuple[str, ...]) -> None:
    metric = parse_name(mbean)
    found = [prometheus_name(metric, form, each) for each in list(Dialect)[1:]]
    assert found == [f"kafka_server_{metric.type.lower()}_{name}" for name in names]
    socket = parse_name("kafka.server:type=socket-server-metrics/connection-count")
    assert prometheus_name(socket, Form.GAUGE, Dialect.CONFLUENT) == (
        "kafka_server_socketservermetrics_connection_count"
    )


def test_a_metric_is_registered_once_and_can_go() -> None:
    registry = Registry()
    registry.counter(MESSAGES_IN)
    with pytest.raises(AssertionError):
        registry.counter(MESSAGES_IN)
    assert isinstance(registry.get(MESSAGES_IN), Counter)
    registry.remove(MESSAGES_IN)
    registry.remove(MESSAGES_IN)
    assert registry.names() == []
    assert registry.get(MESSAGES_IN) is None


def test_a_gauge_is_set_or_asked() -> None:
    gauge = Gauge()
    gauge.value = 3
    assert gauge.read() == 3
    assert Gauge(lambda: 5).read() == 5
    assert State(lambda: "follower").read() == "follower"


def test_the_rate_of_a_meter_moves_towards_what_happens_now() -> None:
    meter = Meter(now=100.0)
    meter.count += 600
    assert meter.rates(160.0) == (10.0, 10.0, 10.0)
    one, five, fifteen = meter.rates(220.0)  # nothing happened for a minute
    assert 0 < one < five < fifteen < 10
    assert meter.rates(220.0) == (one, five, fifteen)


def test_a_meter_that_was_just_made_has_no_rate() -> None:
    meter = Meter(now=1.0)
    assert meter.rates(1.0) == (0.0, 0.0, 0.0)


@given(st.lists(st.integers(0, 1 << 40), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_within_an_eighth_of_the_truth(values: list[int], fraction: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    wanted = -(-len(values) * fraction // 1)
    truth = sorted(values)[int(wanted) - 1]
    found = histogram.percentile(fraction)
    assert truth <= found <= truth * 1.125
    assert histogram.count == len(values)
    assert histogram.mean == sum(values) / len(values)
    assert histogram.percentile(1) == max(values)


def test_an_empty_histogram_has_no_percentile() -> None:
    assert Histogram().percentile(0.5) == 0.0
    assert Histogram().mean == 0.0
    histogram = Histogram()
    histogram.record(-5)
    assert histogram.percentile(1) == 0
