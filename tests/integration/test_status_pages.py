"""All processes of a machine on one page; and what deploy/ asks for is on it."""

import json
import os
import re
import signal
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import yaml
from tests.integration.machine import Machine
from tests.waiting import eventually
from tools.kafka_peer.broker_process import free_ports

from ottla.client.admin import Admin
from ottla.simulation.scrapes import counters

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
OURS = re.compile(r"\b((?:kafka|ottla|process)_[a-z0-9_]+|ottla:[a-z0-9_:]+)")


def get(port: int, path: str, accept: str = "*/*") -> tuple[int, str]:
    asked = Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    try:
        with urlopen(asked, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except URLError as error:  # nobody listens yet
        return 0, str(error.reason)


def rules() -> list[dict[str, str]]:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> list[str]:
    """All that rules and dashboards ask Prometheus for."""
    found = [rule["expr"] for rule in rules()]
    for file in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            found += [target["expr"] for target in panel["targets"]]
    return found


def documented() -> set[str]:
    """What the reference has in its table."""
    page = DEPLOY.parent / "docs" / "reference" / "metrics.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith(("| `k", "| `o"))]
    return {name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row.split("|")[1])}


def test_rules_and_dashboards_find_each_series_in_one_page_of_all_processes(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, 2)
    (http,) = free_ports(1)
    machine.write(2, f"ottla.http.listeners=HTTP://127.0.0.1:{http}\n")
    machine.format("--standalone")
    with machine.start():
        eventually(lambda: get(http, "/readyz")[0] == 200, "ready")
        with Admin(machine.bootstrap(2)) as admin:
            admin.create_topics({"events": 4})
        text = get(http, "/metrics")[1]
        assert counters(text)
        shown = set(re.findall(r"^([a-z_0-9]+)[{ ]", text, re.MULTILINE))
        rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
        recorded = {
            rule["record"]
            for group in rules["groups"]
            for rule in group["rules"]
            if "record" in rule
        }
        asked = {name for each in expressions() for name in OURS.findall(each)}
        assert len(asked) > 20
        assert asked - shown - recorded == set()
        told = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
        assert told - documented() == set()
        assert documented() - told == set()
        for node_id in (1, 1001):
            assert f'kafka_server_replicamanager_partitioncount{{node_id="{node_id}"}}' in text

        second = machine.pids()[1001]
        os.kill(second, signal.SIGSTOP)
        try:
            eventually(lambda: get(http, "/readyz") == (503, "node 1001 is silent\n"), "silent")
            text = get(http, "/metrics")[1]
            assert 'ottla_process_up{node_id="1001"} 0' in text
            assert 'ottla_process_up{node_id="1"} 1' in text
            status, body = get(http, "/healthz", "application/json")
            assert (status, json.loads(body)["warnings"]) == (200, ["node 1001 is silent"])
        finally:
            os.kill(second, signal.SIGCONT)
        eventually(lambda: get(http, "/readyz")[0] == 200, "ready again")
        assert get(http, "/metrics?dialect=other")[0] == 400
