"""Nodes of a simulated cluster are scraped while they serve, restart and lose each other."""

import pytest
from tests.simulation.test_replication import TOPIC, produce, started

from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.node import SimulatedNode
from ottla.simulation.scrapes import Scrape, Scraper, counters

HTTP_PORT = 9644


def scraped(seed: int) -> SimulatedCluster:
    return started(seed, ottla_http_listeners=f"HTTP://:{HTTP_PORT}")


def page(cluster: SimulatedCluster, node: SimulatedNode, path: str) -> Scrape:
    name = f"reader of {path}"
    host = cluster.network.hosts.get(name) or cluster.network.add_host(name)
    scrape = Scrape(host, node, path, HTTP_PORT)
    assert cluster.run_until(lambda: scrape.is_over, 60)
    assert not scrape.is_broken
    return scrape


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_scrape_never_fails_and_nothing_counted_goes_down(seed: int) -> None:
    cluster = scraped(seed)
    scraper = Scraper(cluster, HTTP_PORT, 0.3)
    for round_ in range(3):
        produce(cluster, f"writer-{round_}", 10)
        node = cluster.nodes[1 + round_]
        node.kill()
        cluster.run_for(5)
        node.start()
        assert cluster.run_until(cluster.is_in_sync, 120)
    cluster.run_for(20)
    scraper.is_stopped = True
    assert scraper.pages > 60


def test_a_node_says_what_it_waits_for() -> None:
    cluster = scraped(4)
    node = cluster.nodes[1]
    assert page(cluster, node, "/readyz").text == "ok\n"
    assert page(cluster, node, "/healthz").text == "ok\n"
    for other in (cluster.nodes[2], cluster.nodes[3]):
        other.kill()
    node.kill()
    node.start()
    cluster.run_for(1)
    waiting = page(cluster, node, "/readyz")
    assert (waiting.status, waiting.text) == (503, "the metadata log is not followed yet\n")
    assert page(cluster, node, "/healthz").status == 200


def test_what_comes_to_a_topic_and_is_asked_for_is_counted() -> None:
    cluster = scraped(6)
    produce(cluster, "writer", 20)
    counted: dict[str, float] = {}
    pages = [page(cluster, node, "/metrics").text for node in cluster.nodes.values()]
    for text in pages:
        for name, value in counters(text).items():
            counted[name] = counted.get(name, 0) + value
    bean = "kafka_server_brokertopicmetrics_"
    assert counted[f'{bean}messagesin_total{{topic="{TOPIC}"}}'] == 20
    assert counted[f"{bean}messagesin_total"] >= 20
    assert counted[f'{bean}bytesin_total{{topic="{TOPIC}"}}'] > 20 * 61
    asked = [n for n in counted if n.startswith("kafka_network_requestmetrics_requests_total")]
    assert any('request="Produce"' in name and counted[name] >= 20 for name in asked)
    timed = "kafka_network_requestmetrics_totaltimems_count"
    assert any(f'{timed}{{request="Produce"}} 1\n' in text for text in pages)  # one of sixteen
    assert any(f'{timed}{{request="Metadata"}} 2\n' in text for text in pages)


def test_each_dialect_is_a_page_and_others_are_refused() -> None:
    cluster = scraped(5)
    produce(cluster, "writer", 3)
    node = cluster.nodes[1]
    for dialect in ("strimzi", "confluent", "reporter", "bitnami"):
        assert counters(page(cluster, node, f"/metrics?dialect={dialect}").text)
    assert page(cluster, node, "/metrics?dialect=other").status == 400
    assert page(cluster, node, f"/{TOPIC}").status == 404
