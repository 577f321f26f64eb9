"""TLS: keys, certificates, protocols."""

from ottla.config.definition import (
    PER_BROKER,
    Boolean,
    Class,
    ConfigSet,
    List,
    OptionalString,
    Password,
    String,
)
from ottla.config.validators import distinct, one_of


class SslKeys(ConfigSet):
    """TLS: keys, certificates, protocols."""

    ssl_protocol = String("TLSv1.3", "The newest TLS version to use.", scope=PER_BROKER)
    ssl_enabled_protocols = List(
        ("TLSv1.2", "TLSv1.3"), "The TLS versions that are accepted.", distinct(), PER_BROKER
    )
    ssl_cipher_suites = List(
        (),
        "The cipher suites that are accepted; empty for the default ones.",
        distinct(),
        PER_BROKER,
    )
    ssl_client_auth = String(
        "none",
        "Whether clients must, may or need not show a certificate.",
        one_of("required", "requested", "none"),
        PER_BROKER,
    )
    ssl_endpoint_identification_algorithm = String(
        "https",
        "How the name in a server's certificate is checked; empty for not at all.",
        scope=PER_BROKER,
    )
    ssl_principal_mapping_rules = String(
        "DEFAULT", "Rules that make a short name of a certificate's distinguished name."
    )
    ssl_allow_dn_changes = Boolean(
        False, "Whether a new keystore may have another distinguished name."
    )
    ssl_allow_san_changes = Boolean(
        False, "Whether a new keystore may lack some of the alternative names."
    )
    ssl_key_password = Password(None, "The password of the private key.", scope=PER_BROKER)
    ssl_keystore_type = String(
        "JKS", "The format of the keystore: JKS, PKCS12 or PEM.", scope=PER_BROKER
    )
    ssl_keystore_location = OptionalString(None, "The file of the keystore.", scope=PER_BROKER)
    ssl_keystore_password = Password(None, "The password of the keystore.", scope=PER_BROKER)
    ssl_keystore_key = Password(None, "The private key itself, in PEM.", scope=PER_BROKER)
    ssl_keystore_certificate_chain = Password(
        None, "The certificate chain itself, in PEM.", scope=PER_BROKER
    )
    ssl_truststore_type = String(
        "JKS", "The format of the truststore: JKS, PKCS12 or PEM.", scope=PER_BROKER
    )
    ssl_truststore_location = OptionalString(None, "The file of the truststore.", scope=PER_BROKER)
    ssl_truststore_password = Password(None, "The password of the truststore.", scope=PER_BROKER)
    ssl_truststore_certificates = Password(
        None, "The trusted certificates themselves, in PEM.", scope=PER_BROKER
    )
    ssl_keymanager_algorithm = String(
        "SunX509", "The Java algorithm of the key manager.", scope=PER_BROKER
    )
    ssl_trustmanager_algorithm = String(
        "PKIX", "The Java algorithm of the trust manager.", scope=PER_BROKER
    )
    ssl_provider = OptionalString(None, "The Java provider of TLS.", scope=PER_BROKER)
    ssl_secure_random_implementation = OptionalString(
        None, "The Java source of random numbers for TLS.", scope=PER_BROKER
    )
    ssl_engine_factory_class = Class(
        None, "The Java class that makes TLS engines.", scope=PER_BROKER
    )
