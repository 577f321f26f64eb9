"""A remote store that is a bucket: S3 and what speaks like it, Google Cloud Storage, Azure.

The work is done by ``obstore``, which is brought by ``pip install ottla[tiered]`` and imported only
here and only when it is needed. What is not set comes from the environment, as the tools of each
cloud have it: ``AWS_ACCESS_KEY_ID``, ``GOOGLE_APPLICATION_CREDENTIALS``, ``AZURE_STORAGE_...``.

Large files go in parts, of which a few are in memory at once. Requests have a time-out and are
tried again a few times; what fails then is the caller's to try again later.
"""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ottla.common.errors import InvalidConfig
from ottla.tiered.store import (
    Progress,
    RemoteObjectNotFound,
    RemoteStoreError,
    StoredObject,
    unhindered,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket

SCHEMES: Final = ("s3", "gs", "az")
PART_SIZE: Final = 8 << 20
"""S3 takes 10,000 parts: segments of up to 2 GiB need 256."""
PARTS_AT_ONCE: Final = 2
LIST_PAGE: Final = 1000
RETRIES: Final = 3
RETRY_SECONDS: Final = 60
CONNECT_SECONDS: Final = 5
TIMEOUT_MS: Final = 30_000


class ObjectStore:
    """See the module. Several threads may use it."""

    def __init__(self, bucket: "Bucket") -> None:
        self._bucket = bucket

    def put(self, key: str, data: bytes) -> None:
        import obstore

        with _errors(key):
            obstore.put(self._bucket, key, data, use_multipart=False)

    def put_new(self, key: str, data: bytes) -> None:
        """Make an object; FileExistsError when there is one of that key, however it came there."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with _errors(key):
            try:
                obstore.put(self._bucket, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                raise FileExistsError(key) from error

    def put_file(self, key: str, path: str, size: int, progress: Progress = unhindered) -> None:
        import obstore

        parts = _Parts(path, size, progress)
        try:
            with _errors(key):
                if size <= PART_SIZE:
                    obstore.put(self._bucket, key, b"".join(parts), use_multipart=False)
                else:
                    obstore.put(
                        self._bucket,
                        key,
                        parts,
                        use_multipart=True,
                        chunk_size=PART_SIZE,
                        max_concurrency=PARTS_AT_ONCE,
                    )
        except RemoteStoreError:
            # What ended the reading of the file says more than what the library makes of it.
            if parts.failure is not None:
                raise parts.failure from None
            raise

    def get(self, key: str) -> bytes:
        import obstore

        with _errors(key):
            return bytes(obstore.get(self._bucket, key).bytes())

    def get_range(self, key: str, start: int, size: int) -> bytes:
        import obstore

        with _errors(key):
            return bytes(obstore.get_range(self._bucket, key, start=start, length=size))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """By pages; the library knows directories only, so it is told where to begin."""
        import obstore

        folder = prefix.rpartition("/")[0]
        after = prefix[:-1] if len(prefix) > len(folder) + 1 else None
        with _errors(prefix):
            for page in obstore.list(
                self._bucket, folder or None, offset=after, chunk_size=LIST_PAGE
            ):
                for each in page:
                    if each["path"].startswith(prefix):
                        yield StoredObject(each["path"], each["size"])
                    elif each["path"] > prefix:
                        return

    def delete(self, key: str) -> None:
        import obstore

        with contextlib.suppress(RemoteObjectNotFound), _errors(key):
            obstore.delete(self._bucket, key)

    def close(self) -> None:
        """The library closes its connections when the last reference is gone."""


class _Parts:
    """The first bytes of a file, part by part, for a library that hides what goes wrong here."""

    def __init__(self, path: str, size: int, progress: Progress) -> None:
        self._path = path
        self._size = size
        self._progress = progress
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123
                left = self._size
                while left:
                    count = min(left, PART_SIZE)
                    self._progress(count)
                    data = file.read(count)
                    if len(data) != count:
                        raise RemoteStoreError(f"{self._path} has fewer than {self._size} bytes")
                    left -= count
                    yield data
        except OSError as error:
            self.failure = RemoteStoreError(f"{self._path} cannot be read: {error}")
            raise self.failure from error
        except Exception as error:
            self.failure = error
            raise


@contextlib.contextmanager
def _errors(what: str) -> Iterator[None]:
    from obstore.exceptions import BaseError, NotFoundError

    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise RemoteObjectNotFound(f"{what}: {error}") from error
    except BaseError as error:
        raise RemoteStoreError(f"{what}: {error}") from error


def open_bucket(url: str, settings: Mapping[str, str]) -> ObjectStore:
    """The store of a ``s3://``, ``gs://`` or ``az://`` address."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise InvalidConfig(f"{url} needs a library: pip install ottla[tiered]") from error

    parts = urlsplit(url)
    if not parts.netloc:
        raise InvalidConfig(f"ottla.remote.store.url names no bucket: {url}")
    prefix = parts.path.strip("/") or None
    common = _common(settings)
    config = _config(parts.scheme, settings)
    bucket: Bucket
    try:
        if parts.scheme == "s3":
            bucket = S3Store(parts.netloc, prefix=prefix, config=config, **common)
        elif parts.scheme == "gs":
            bucket = GCSStore(parts.netloc, prefix=prefix, config=config, **common)
        else:
            bucket = AzureStore(parts.netloc, prefix=prefix, config=config, **common)
    except (BaseError, ValueError) as error:
        raise InvalidConfig(f"{url} cannot be used: {error}") from error
    return ObjectStore(bucket)


_NAMES: Final = {
    "s3": {
        "ottla.remote.store.endpoint": "endpoint",
        "ottla.remote.store.region": "region",
        "ottla.remote.store.access.key.id": "access_key_id",
        "ottla.remote.store.secret.access.key": "secret_access_key",
    },
    "gs": {
        "ottla.remote.store.endpoint": "base_url",
        "ottla.remote.store.secret.access.key": "service_account_key",
    },
    "az": {
        "ottla.remote.store.endpoint": "endpoint",
        "ottla.remote.store.access.key.id": "account_name",
        "ottla.remote.store.secret.access.key": "account_key",
    },
}
"""What each cloud calls our settings."""


def _config(scheme: str, settings: Mapping[str, str]) -> Any:  # a TypedDict of each cloud's own
    return {
        theirs: settings[ours].strip()
        for ours, theirs in _NAMES[scheme].items()
        if ours in settings
    }


def _common(settings: Mapping[str, str]) -> Any:
    timeout_ms = int(settings.get("ottla.remote.store.request.timeout.ms", TIMEOUT_MS))
    allow_http = settings.get("ottla.remote.store.allow.http", "false").strip().lower()
    return {
        "client_options": {
            "allow_http": allow_http == "true",
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": timedelta(milliseconds=timeout_ms),
        },
        "retry_config": {
            "max_retries": RETRIES,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        },
    }
