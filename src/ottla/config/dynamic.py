"""What a running broker asks of new settings beyond what a starting one does.

The rules and their wording are those of Kafka's DynamicBrokerConfig: thread pools change by no more
than a factor of two at a time, and what is kept on local disk is part of what is kept at all.
"""

from typing import TYPE_CHECKING, Final

from ottla.common.errors import InvalidConfig
from ottla.config.kinds import invalid

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_POOLS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)


def check_transition(old: "BrokerConfig", new: "BrokerConfig") -> None:
    """Refuse a change that a running broker cannot make."""
    for name in _POOLS:
        _check_pool(name, old, new)
    _check_cleaner(old.log_cleaner_threads, new.log_cleaner_threads)
    _check_local("bytes", new.log_local_retention_bytes, new.log_retention_bytes)
    _check_local("ms", new.log_local_retention_ms, new.log_retention_ms)


def _check_pool(name: str, old: "BrokerConfig", new: "BrokerConfig") -> None:
    before, after = old.values[name], new.values[name]
    assert isinstance(before, int)
    assert isinstance(after, int)
    complaint = f"Dynamic thread count update validation failed for {name}={after}, value should"
    if after < before // 2:
        raise InvalidConfig(f"{complaint} be at least half the current value {before}")
    if after > before * 2:
        raise InvalidConfig(f"{complaint} not be greater than double the current value {before}")


def _check_cleaner(before: int, after: int) -> None:
    if after < 1:
        raise InvalidConfig("Log cleaner threads should be at least 1")
    if after < before // 2:
        raise InvalidConfig(
            f"Log cleaner threads cannot be reduced to less than half the current value {before}"
        )
    if after > before * 2:
        raise InvalidConfig(
            f"Log cleaner threads cannot be increased to more than double the current value "
            f"{before}"
        )


def _check_local(unit: str, local: int, whole: int) -> None:
    if whole == -1 or local == -2:
        return
    name, limit = f"log.local.retention.{unit}", f"log.retention.{unit}"
    if local == -1:
        raise invalid(name, local, f"Value must not be -1 as {limit} value is set as {whole}.")
    if local > whole:
        raise invalid(name, local, f"Value must not be more than {limit} property value: {whole}")
