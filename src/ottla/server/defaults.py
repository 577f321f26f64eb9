"""Settings for a single node that needs none: `ottla dev`, the embedded broker, simulations."""


def development_properties(
    directory: str, *, port: int = 0, host: str = "127.0.0.1", node_id: int = 1
) -> dict[str, str]:
    """A broker that is its own controller; internal topics have one replica, groups do not wait."""
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{host}:0",
        "log.dirs": directory,
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
