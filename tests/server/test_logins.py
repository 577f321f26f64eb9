"""Settings of logins: which are understood, which are refused at the start, and in which words."""

from collections.abc import Mapping

import pytest
from tests.integration.test_sasl import PLAIN_USERS, SCRAM, secured

from ottla.common.chance import Chance
from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.metadata.cache import MetadataCache
from ottla.server.defaults import development_properties
from ottla.server.logins import Logins
from ottla.simulation.scheduler import SimulatedScheduler

JAAS = "listener.name.plaintext.plain.sasl.jaas.config"
OF_CONTROLLER = "listener.name.controller.plain.sasl.jaas.config"
HANDLER = "sasl.server.callback.handler.class"


def logins(settings: Mapping[str, str]) -> Logins:
    config = BrokerConfig.from_properties({**development_properties("/data"), **settings})
    return Logins(config, MetadataCache(), SimulatedScheduler(Chance(1)), Chance(2))


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in secured().items() if key != name}


def test_a_plain_node_has_none() -> None:
    found = logins({})
    assert found.to_brokers is None
    assert found.to_controllers is None
    assert found.at(found._config.listeners, lambda _connection, _frame: None) == {}


def test_logins_of_all_listeners_and_to_other_nodes() -> None:
    found = logins(secured(**{"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}) | LOGGED)
    listeners = found.at(found._config.listeners, lambda _connection, _frame: None)
    assert set(listeners) == {"PLAINTEXT", "CONTROLLER"}
    assert found.to_brokers is not None
    assert found.to_brokers.mechanism == "SCRAM-SHA-256"
    assert found.to_controllers is not None
    assert found.to_controllers.mechanism == "PLAIN"


LOGGED = {
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": SCRAM.replace(
        ";", ' username="a" password="b";'
    )
}


def test_the_size_of_frames_before_a_login() -> None:
    settings = {"listener.name.controller.sasl.server.max.receive.size": "1000"}
    found = logins(secured(**settings))
    listeners = found.at(found._config.listeners, lambda _connection, _frame: None)
    assert listeners["CONTROLLER"].frame_bytes == 1000
    assert listeners["PLAINTEXT"].frame_bytes == 524_288


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (without("sasl.enabled.mechanisms"), "Kerberos is not served"),
        (without("sasl.mechanism.inter.broker.protocol"), "Kerberos is not served"),
        (without("sasl.mechanism.controller.protocol"), "Kerberos is not served"),
        (without(JAAS), f"{JAAS} is not set"),
        (without(OF_CONTROLLER), f"{OF_CONTROLLER} is not set"),
        (secured(**{"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}), "Kerberos is not served"),
        (secured(**{"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}), "'DIGEST-MD5'"),
        (secured(**{"sasl.enabled.mechanisms": ""}), "is empty"),
        (
            secured(**{"sasl.mechanism.controller.protocol": "SCRAM-SHA-512"}),
            "sasl.mechanism.controller.protocol must be included in sasl.enabled.mechanisms",
        ),
        (secured(**{"sasl.mechanism.inter.broker.protocol": "NTLM"}), "'NTLM'"),
        (secured(**{JAAS: PLAIN_USERS[:-1]}), JAAS),
        (secured(**{JAAS: SCRAM}), "PlainLoginModule"),
        (
            secured(**{JAAS: 'com.sun.security.auth.module.JndiLoginModule required x="secret";'}),
            "cannot be loaded",
        ),
        (secured(**{OF_CONTROLLER: PLAIN_USERS.replace("username", "x")}), "no username"),
        (
            secured(**{f"listener.name.plaintext.plain.{HANDLER}": "com.example.Mine"}),
            "cannot be loaded",
        ),
        (secured(**{"principal.builder.class": "com.example.Mine"}), "principal.builder.class"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_no_secret_is_shown(
    settings: Mapping[str, str], words: str
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        logins(settings)
    assert words in refused.value.message
    assert "secret" not in refused.value.message


def test_logins_do_not_show_their_secrets() -> None:
    found = logins(secured())
    shown = repr(found.to_brokers) + repr(found._at) + repr(found._credentials)
    assert "secret" not in shown
