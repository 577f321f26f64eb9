"""Whether what is read from disk is looked at first: a setting that Apache Kafka does not have."""

from ottla.config.definition import ConfigSet, String
from ottla.config.validators import one_of


class VerificationKeys(ConfigSet):
    """Looking at what is read from disk (ottla's own)."""

    ottla_log_verify = String(
        "once",
        "Checksums of what is read: once in each incarnation of the broker, always, or never.",
        one_of("once", "always", "never"),
    )
