"""Which remote store an address names."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.tiered.driver.directory import DirectoryStore
from ottla.tiered.driver.object_store import SCHEMES, open_bucket
from ottla.tiered.store import RemoteStore

DEFAULT_NAME: Final = "ottla-remote"
KNOWN: Final = ("file", *SCHEMES)


def open_store(url: str, settings: Mapping[str, str], *, writable: bool = True) -> RemoteStore:
    """``settings`` are those of the broker, by their full names; only ``ottla.remote.store.*``.

    A caller that only reads says so, and then nothing is made or cleaned up when it is opened.
    InvalidConfig for an address that cannot be right, RemoteStoreError when the store is not there.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
            raise InvalidConfig(f"ottla.remote.store.url names no directory: {url}")
        return DirectoryStore(unquote(parts.path), writable=writable)
    if parts.scheme in SCHEMES:
        return open_bucket(url, settings)
    raise InvalidConfig(
        f"ottla.remote.store.url has an unknown scheme: {url}; "
        f"known are {', '.join(f'{scheme}://' for scheme in KNOWN)}"
    )


def store_url(config: BrokerConfig) -> str:
    """The address that a node was given, or that of a directory beside its first log directory.

    InvalidConfig when it lies within a log directory: Kafka would take it for a partition's.
    """
    url = config.ottla_remote_store_url
    if url is None:
        parent = _absolute(config.log_dirs[0]).rpartition("/")[0]
        url = f"file://{quote(parent)}/{DEFAULT_NAME}"
    parts = urlsplit(url)
    if parts.scheme == "file":
        _check_outside(unquote(parts.path), config.log_dirs)
    return url


def _check_outside(path: str, log_dirs: Sequence[str]) -> None:
    for directory in map(_absolute, log_dirs):
        if f"{_absolute(path)}/".startswith(f"{directory}/"):
            raise InvalidConfig(
                f"ottla.remote.store.url must not lie within a log directory: {path}"
            )


def _absolute(path: str) -> str:
    import os

    return os.path.abspath(path)  # noqa: PTH100
