"""The remote store of tiered storage: settings that Apache Kafka leaves to a plug-in."""

from ottla.config.definition import Boolean, ConfigSet, Int, OptionalString, Password
from ottla.config.validators import ENDPOINT, PLAIN, STORE, at_least


class RemoteStoreKeys(ConfigSet):
    """The remote store of tiered storage (ottla's own)."""

    ottla_remote_store_url = OptionalString(
        None,
        "file://, s3://, gs:// or az://; if none, ottla-remote beside the log directory.",
        STORE,
    )
    ottla_remote_store_endpoint = OptionalString(
        None, "Where the store is served, if not by the cloud itself.", ENDPOINT
    )
    ottla_remote_store_region = OptionalString(None, "The region of an S3 bucket.", PLAIN)
    ottla_remote_store_access_key_id = OptionalString(
        None, "The access key of S3, or the storage account of Azure.", PLAIN
    )
    ottla_remote_store_secret_access_key = Password(
        None, "The secret to it; for gs:// the key of a service account, as JSON."
    )
    ottla_remote_store_allow_http = Boolean(
        False, "Whether the endpoint may be reached without TLS."
    )
    ottla_remote_store_request_timeout_ms = Int(
        30_000, "How long one request to the store may take.", at_least(1)
    )
