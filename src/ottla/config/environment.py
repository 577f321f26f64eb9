"""Settings from environment variables, named as Apache's container image names them.

``KAFKA_LOG_RETENTION_MS`` is log.retention.ms: one underscore is a dot, two are an underscore,
three are a dash. What is set here goes before what a file says.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

PREFIX: Final = "KAFKA_"
DEFAULT_CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
SECRETS: Final = "/etc/kafka/secrets/"

IGNORED: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
    }
)
"""Variables that are no settings; most speak to a Java virtual machine."""

_STORES: Final = {"keystore": ("keystore", "key"), "truststore": ("truststore",)}


def cluster_id(environment: Mapping[str, str]) -> str:
    return environment.get("CLUSTER_ID") or DEFAULT_CLUSTER_ID


def root_level(environment: Mapping[str, str]) -> str | None:
    """The level of the root logger, when a variable sets it."""
    return environment.get("KAFKA_LOG4J_ROOT_LOGLEVEL")


def setting_name(variable: str) -> str:
    """KAFKA_SOME_SETTING -> some.setting."""
    name = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def settings_from_environment(
    environment: Mapping[str, str], read_secret: Callable[[str], str]
) -> dict[str, str]:
    """The settings that the variables hold; ``read_secret`` reads a file of credentials."""
    settings = {
        setting_name(variable): value
        for variable, value in sorted(environment.items())
        if variable.startswith(PREFIX) and variable not in IGNORED
    }
    advertised = settings.get("advertised.listeners")
    if advertised is None:
        return settings
    if "listeners" not in settings:
        settings["listeners"] = re.sub(r"://[^:]*:", "://0.0.0.0:", advertised)
    if "SSL://" in advertised:
        _add_stores(settings, read_secret)
    return settings


def _add_stores(settings: dict[str, str], read_secret: Callable[[str], str]) -> None:
    """File names and credentials of key and trust store become locations and passwords."""
    for store, secrets in _STORES.items():
        filename = settings.pop(f"ssl.{store}.filename", None)
        if filename is not None:
            settings[f"ssl.{store}.location"] = SECRETS + filename
        for secret in secrets:
            credentials = settings.pop(f"ssl.{secret}.credentials", None)
            if credentials is not None:
                settings[f"ssl.{secret}.password"] = read_secret(SECRETS + credentials).rstrip("\n")
