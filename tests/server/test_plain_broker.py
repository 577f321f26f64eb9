"""A broker loads what it is configured to have, and nothing of the rest."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.server.defaults import development_properties
from ottla.server.prepare import prepare_storage

PROGRAM: Final = """
import os, signal, sys
from ottla.cli import server

def started(running):
    print("modules", *sorted(sys.modules))
    os.kill(os.getpid(), signal.SIGTERM)

server._announce = started
server.server([sys.argv[1], "--log-level", "OFF"])
"""
"""`ottla server FILE`, which says what is loaded when it serves, and stops."""

NOT_OF_A_PLAIN_BROKER: Final = {
    "TLS": ("ottla.network.tls", "ottla.server.secured_networks", "ottla.security.tls_contexts"),
    "SASL": ("ottla.network.login", "ottla.server.logins", "ottla.security.sasl_server"),
    "SASL at other nodes": ("ottla.security.sasl_client", "ottla.security.scram_client"),
    "OAUTHBEARER": ("ottla.security.oauthbearer", "ottla.security.signed_tokens", "jwt"),
    "cryptography": ("cryptography", "ottla.security.tls_stores", "ottla.security.certificates"),
    "ACLs": ("ottla.metadata.standard_authorizer", "ottla.metadata.audit"),
    "status pages": ("ottla.network.http_server", "ottla.server.status_pages"),
    "supervision": ("ottla.server.supervision.driver", "ottla.server.supervision.start"),
    "remote tier": ("ottla.tiered.manager", "ottla.server.remote_logs"),
    "clients": ("ottla.client", "http.client", "email", "argparse", "urllib.request"),
    "pipelines": ("pyspark", "pyarrow", "numpy", "numba", "ottla.spark"),
}


def modules_of(directory: Path, **settings: str) -> set[str]:
    """What is loaded in a node that serves."""
    data = directory / "data"
    data.mkdir()
    properties = development_properties(str(data)) | {
        name.replace("_", "."): value for name, value in settings.items()
    }
    prepare_storage(BrokerConfig.from_properties(properties))
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = [sys.executable, "-c", PROGRAM, str(file)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    word, *modules = run.stdout.split()
    assert word == "modules"
    return set(modules)


def test_a_plain_broker_loads_nothing_that_it_is_not_asked_for(tmp_path: Path) -> None:
    modules = modules_of(tmp_path)
    assert "ottla.server.broker_server" in modules
    loaded = {
        part: [name for name in names if name in modules]
        for part, names in NOT_OF_A_PLAIN_BROKER.items()
    }
    assert not {part: names for part, names in loaded.items() if names}


def test_a_broker_loads_what_it_is_asked_for(tmp_path: Path) -> None:
    modules = modules_of(
        tmp_path,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
        ottla_http_listeners="HTTP://127.0.0.1:0",
    )
    assert modules >= {"ottla.metadata.standard_authorizer", "ottla.network.http_server"}
    assert "ottla.server.secured_networks" not in modules
