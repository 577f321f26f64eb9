"""SASL: mechanisms, logins, Kerberos."""

from ottla.config.definition import (
    PER_BROKER,
    Class,
    ConfigSet,
    Double,
    Int,
    List,
    Long,
    OptionalInt,
    OptionalString,
    Password,
    Short,
    String,
)
from ottla.config.validators import distinct


class SaslKeys(ConfigSet):
    """SASL: mechanisms, logins, Kerberos."""

    sasl_enabled_mechanisms = List(
        ("GSSAPI",), "The mechanisms that clients may use.", distinct(), PER_BROKER
    )
    sasl_mechanism_inter_broker_protocol = String(
        "GSSAPI", "The mechanism that brokers use among themselves.", scope=PER_BROKER
    )
    sasl_mechanism_controller_protocol = String("GSSAPI", "The mechanism towards controllers.")
    sasl_jaas_config = Password(
        None, "The login of a listener and mechanism, in JAAS form.", scope=PER_BROKER
    )
    sasl_server_max_receive_size = Int(524_288, "The largest SASL message that is read.")
    sasl_server_callback_handler_class = Class(
        None, "The Java class that answers a server's questions during SASL."
    )
    sasl_client_callback_handler_class = Class(
        None, "The Java class that answers a client's questions during SASL."
    )
    sasl_login_callback_handler_class = Class(
        None, "The Java class that answers a login's questions."
    )
    sasl_login_class = Class(None, "The Java class of the login.")
    sasl_login_connect_timeout_ms = OptionalInt(
        None, "How long a connection to an outside token provider may take."
    )
    sasl_login_read_timeout_ms = OptionalInt(
        None, "How long an outside token provider may take to answer."
    )
    sasl_login_retry_backoff_ms = Long(
        100, "The first pause before an outside token provider is asked again."
    )
    sasl_login_retry_backoff_max_ms = Long(
        10_000, "The longest pause before an outside token provider is asked again."
    )
    sasl_login_refresh_window_factor = Double(
        0.8, "Share of a token's life after which it is refreshed.", scope=PER_BROKER
    )
    sasl_login_refresh_window_jitter = Double(
        0.05, "The most that is added to that by chance.", scope=PER_BROKER
    )
    sasl_login_refresh_min_period_seconds = Short(
        60, "The shortest time between two refreshes.", scope=PER_BROKER
    )
    sasl_login_refresh_buffer_seconds = Short(
        300, "How long before its end a token is refreshed.", scope=PER_BROKER
    )
    sasl_kerberos_service_name = OptionalString(
        None, "The Kerberos name that brokers run under.", scope=PER_BROKER
    )
    sasl_kerberos_kinit_cmd = String("/usr/bin/kinit", "The kinit command.", scope=PER_BROKER)
    sasl_kerberos_ticket_renew_window_factor = Double(
        0.8, "Share of a ticket's life after which it is renewed.", scope=PER_BROKER
    )
    sasl_kerberos_ticket_renew_jitter = Double(
        0.05, "The most that is added to that by chance.", scope=PER_BROKER
    )
    sasl_kerberos_min_time_before_relogin = Long(
        60_000, "The shortest time between two Kerberos logins.", scope=PER_BROKER
    )
    sasl_kerberos_principal_to_local_rules = List(
        ("DEFAULT",),
        "Rules that make a short name of a Kerberos principal.",
        distinct(),
        PER_BROKER,
    )
