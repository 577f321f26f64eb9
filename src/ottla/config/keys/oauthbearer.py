"""SASL/OAUTHBEARER: how tokens are got and checked."""

from ottla.config.definition import (
    Boolean,
    Class,
    ConfigSet,
    Int,
    List,
    Long,
    OptionalString,
    Password,
    String,
)
from ottla.config.validators import between, distinct, one_of_in_any_case


class OauthbearerKeys(ConfigSet):
    """SASL/OAUTHBEARER: how tokens are got and checked."""

    sasl_oauthbearer_token_endpoint_url = OptionalString(None, "Where tokens are asked for.")
    sasl_oauthbearer_scope = OptionalString(None, "The scope to ask a token for.")
    sasl_oauthbearer_scope_claim_name = String("scope", "The claim that holds the scope.")
    sasl_oauthbearer_sub_claim_name = String("sub", "The claim that holds the subject.")
    sasl_oauthbearer_expected_audience = List(
        (), "The audiences of which a token must name one.", distinct()
    )
    sasl_oauthbearer_expected_issuer = OptionalString(None, "The issuer that a token must name.")
    sasl_oauthbearer_clock_skew_seconds = Int(
        30, "How far clocks may differ when a token's times are checked."
    )
    sasl_oauthbearer_jwks_endpoint_url = OptionalString(
        None, "Where the keys that sign tokens are found."
    )
    ottla_sasl_oauthbearer_allowed_urls = List(
        (),
        "The URLs of tokens and keys that may be used at all (Apache Kafka has them in a property "
        "of its Java process, org.apache.kafka.sasl.oauthbearer.allowed.urls).",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Long(
        3_600_000, "Time between refreshes of those keys."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Long(
        100, "The first pause before those keys are asked for again."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Long(
        10_000, "The longest pause before those keys are asked for again."
    )
    sasl_oauthbearer_jwt_retriever_class = Class(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "The Java class that gets tokens.",
    )
    sasl_oauthbearer_jwt_validator_class = Class(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "The Java class that checks tokens.",
    )
    sasl_oauthbearer_client_credentials_client_id = OptionalString(
        None, "The client id for the client-credentials grant."
    )
    sasl_oauthbearer_client_credentials_client_secret = Password(
        None, "The client secret for the client-credentials grant."
    )
    sasl_oauthbearer_assertion_algorithm = String(
        "RS256", "The algorithm that signs an assertion.", one_of_in_any_case("ES256", "RS256")
    )
    sasl_oauthbearer_assertion_claim_aud = OptionalString(None, "The audience of an assertion.")
    sasl_oauthbearer_assertion_claim_exp_seconds = Int(
        300, "How long an assertion is valid.", between(0, 86_400)
    )
    sasl_oauthbearer_assertion_claim_iss = OptionalString(None, "The issuer of an assertion.")
    sasl_oauthbearer_assertion_claim_jti_include = Boolean(
        False, "Whether an assertion bears a unique id."
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds = Int(
        60, "How long before now an assertion becomes valid.", between(0, 3_600)
    )
    sasl_oauthbearer_assertion_claim_sub = OptionalString(None, "The subject of an assertion.")
    sasl_oauthbearer_assertion_file = OptionalString(None, "A file that holds a ready assertion.")
    sasl_oauthbearer_assertion_private_key_file = OptionalString(
        None, "The file of the key that signs assertions."
    )
    sasl_oauthbearer_assertion_private_key_passphrase = Password(
        None, "The passphrase of that key."
    )
    sasl_oauthbearer_assertion_template_file = OptionalString(
        None, "A file with fixed parts of an assertion."
    )
