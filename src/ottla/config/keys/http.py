"""Where a node shows how it is: settings that Apache Kafka does not have."""

from ottla.config.definition import ConfigSet, Int, List
from ottla.config.validators import at_least


class HttpKeys(ConfigSet):
    """Metrics and health over HTTP (ottla's own)."""

    ottla_http_listeners = List(
        (),
        "Addresses as HTTP://host:port that serve /metrics, /healthz and /readyz; none by default. "
        "They ask for no login: everybody who can connect can read them.",
    )
    ottla_metrics_series_max = Int(
        20_000,
        "Of one metric so many series are shown, such as one for each partition; the number of the "
        "others is ottla_metrics_dropped_series.",
        at_least(1),
    )
