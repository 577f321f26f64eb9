"""Listeners, sockets, connections and the requests in flight."""

from ottla.config.definition import (
    CLUSTER_WIDE,
    PER_BROKER,
    REQUIRED,
    ConfigSet,
    Int,
    List,
    Long,
    String,
)
from ottla.config.limits import INT_MAX
from ottla.config.listeners import Counts, ListenerList
from ottla.config.validators import at_least, distinct, one_of


class NetworkKeys(ConfigSet):
    """Listeners, sockets, connections and the requests in flight."""

    listeners = ListenerList(
        ("PLAINTEXT://:9092",),
        "The addresses to listen on, each as NAME://host:port.",
        distinct(empty=False),
        PER_BROKER,
    )
    advertised_listeners = ListenerList(
        None,
        "The addresses that clients are told to use, when they differ from listeners.",
        distinct(empty=False),
    )
    listener_security_protocol_map = String(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener name stands for.",
        scope=PER_BROKER,
    )
    inter_broker_listener_name = String(None, "The listener that brokers use among themselves.")
    security_inter_broker_protocol = String(
        "PLAINTEXT",
        "The security protocol among brokers, when inter.broker.listener.name is not set.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    controller_listener_names = List(
        REQUIRED, "The names of the listeners that serve the controller.", distinct(empty=False)
    )
    early_start_listeners = List(
        None, "Listeners that may serve before the authorizer is ready.", distinct()
    )
    num_network_threads = Int(
        3, "Threads that read requests and send answers.", at_least(1), CLUSTER_WIDE
    )
    queued_max_requests = Int(
        500, "Requests that may wait for a handler before reading stops.", at_least(1)
    )
    queued_max_request_bytes = Long(
        -1, "Bytes of requests that may wait before reading stops; -1 for no bound."
    )
    request_timeout_ms = Int(
        30_000, "How long this node waits for the answer to a request of its own."
    )
    socket_send_buffer_bytes = Int(
        102_400, "SO_SNDBUF of a connection; -1 leaves it to the system."
    )
    socket_receive_buffer_bytes = Int(
        102_400, "SO_RCVBUF of a connection; -1 leaves it to the system."
    )
    socket_request_max_bytes = Int(104_857_600, "The largest request that is read.", at_least(1))
    socket_listen_backlog_size = Int(50, "Connections that may wait to be accepted.", at_least(1))
    socket_connection_setup_timeout_ms = Long(
        10_000, "How long an outgoing connection may take at first; it doubles with each failure."
    )
    socket_connection_setup_timeout_max_ms = Long(
        30_000, "How long an outgoing connection may take at most."
    )
    max_connections = Int(
        INT_MAX,
        "Connections to the broker, or with a listener's prefix to that listener.",
        at_least(0),
        CLUSTER_WIDE,
    )
    max_connections_per_ip = Int(
        INT_MAX, "Connections from one address.", at_least(0), CLUSTER_WIDE
    )
    max_connections_per_ip_overrides = Counts(
        "", "Other bounds for some addresses or names, as host:count, ...", scope=CLUSTER_WIDE
    )
    max_connection_creation_rate = Int(
        INT_MAX, "New connections per second.", at_least(0), CLUSTER_WIDE
    )
    connections_max_idle_ms = Long(600_000, "A connection that is idle for so long is closed.")
    connection_failed_authentication_delay_ms = Int(
        100, "How long the answer to a failed authentication is held back.", at_least(0)
    )
    fetch_max_bytes = Int(
        57_671_680, "The most bytes that a fetch is answered with.", at_least(1_024)
    )
    fetch_purgatory_purge_interval_requests = Int(
        1_000, "Finished fetches that may stay among the waiting ones before a clean-up."
    )
    producer_purgatory_purge_interval_requests = Int(
        1_000, "Finished produce requests that may stay among the waiting ones before a clean-up."
    )
    delete_records_purgatory_purge_interval_requests = Int(
        1, "Finished DeleteRecords requests that may stay among the waiting ones before a clean-up."
    )
    share_fetch_purgatory_purge_interval_requests = Int(
        1_000, "Finished share fetches that may stay among the waiting ones before a clean-up."
    )
    max_incremental_fetch_session_cache_slots = Int(
        1_000, "Fetch sessions that the broker remembers.", at_least(0)
    )
    max_request_partition_size_limit = Int(
        2_000, "Partitions that one DescribeTopicPartitions request may ask for.", at_least(1)
    )
