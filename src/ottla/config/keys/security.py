"""Who may do what: principals, authorisation, delegation tokens."""

from ottla.config.definition import (
    PER_BROKER,
    Class,
    ConfigSet,
    Long,
    OptionalString,
    Password,
    String,
)
from ottla.config.validators import at_least


class SecurityKeys(ConfigSet):
    """Who may do what: principals, authorisation, delegation tokens."""

    authorizer_class_name = String("", "The Java class of the authorizer; empty for none.")
    principal_builder_class = Class(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "The Java class that makes a principal of a connection.",
        scope=PER_BROKER,
    )
    connections_max_reauth_ms = Long(
        0, "Time after which a SASL connection must authenticate again; 0 for never."
    )
    security_providers = OptionalString(None, "Java classes that provide security algorithms.")
    delegation_token_secret_key = Password(
        None, "The key that delegation tokens are signed with; without it there are none."
    )
    delegation_token_max_lifetime_ms = Long(
        604_800_000, "How long a delegation token can be renewed.", at_least(1)
    )
    delegation_token_expiry_time_ms = Long(
        86_400_000, "How long a delegation token is valid before it must be renewed.", at_least(1)
    )
    delegation_token_expiry_check_interval_ms = Long(
        3_600_000, "Time between removals of expired delegation tokens.", at_least(1)
    )
