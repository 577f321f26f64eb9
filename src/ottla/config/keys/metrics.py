"""Metrics, and the telemetry that clients push."""

from ottla.config.definition import CLUSTER_WIDE, ConfigSet, Int, List, Long, String
from ottla.config.validators import at_least, distinct


class MetricsKeys(ConfigSet):
    """Metrics, and the telemetry that clients push."""

    metric_reporters = List(
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Java classes that are told of each metric.",
        distinct(),
        CLUSTER_WIDE,
    )
    metrics_num_samples = Int(2, "Samples that a rate is made of.", at_least(1))
    metrics_sample_window_ms = Long(30_000, "Length of each of those samples.", at_least(1))
    metrics_recording_level = String("INFO", "How much is measured: INFO, DEBUG or TRACE.")
    kafka_metrics_reporters = List(
        (), "Java classes that report the older kind of metrics.", distinct()
    )
    kafka_metrics_polling_interval_secs = Int(10, "Time between two reports of those.", at_least(1))
    telemetry_max_bytes = Int(
        1_048_576, "The largest telemetry that a client may push.", at_least(1)
    )
