"""Formatting as kafka-storage 4.3.1 does it: what it writes, prints and refuses."""

import pytest
from tests.metadata.apache_files import BOOTSTRAP_CHECKPOINT
from tests.metadata.test_snapshot import without_times
from tests.raft.quorums import DIRECTORY, LOG_DIR, settings

from ottla.common.chance import Chance
from ottla.common.identifiers import uuid_from_text
from ottla.config.broker import BrokerConfig
from ottla.metadata.snapshot import read_container, read_records
from ottla.protocol.generated.metadata_records import FeatureLevelRecord
from ottla.raft.voters import voters_from_record
from ottla.server.format import FormatRefused, format_storage
from ottla.storage.checkpoints import MetaProperties
from ottla.testing.files import MemoryFilesystem

CLUSTER_ID = "abcdefghijklmnopqrstug"
FIRST = f"{DIRECTORY}/00000000000000000000-0000000000.checkpoint"
STATIC = {
    "controller_quorum_voters": "1@localhost:9093",
    "controller_quorum_bootstrap_servers": "",
}


def run(
    filesystem: MemoryFilesystem,
    config: BrokerConfig | None = None,
    *,
    standalone: bool = False,
    no_initial_controllers: bool = False,
    initial_controllers: str | None = None,
    features: dict[str, int] | None = None,
    release_version: str | None = None,
    ignore_formatted: bool = False,
) -> list[str]:
    return format_storage(
        filesystem,
        config or settings(),
        CLUSTER_ID,
        standalone=standalone,
        no_initial_controllers=no_initial_controllers,
        initial_controllers=initial_controllers,
        features=features,
        release_version=release_version,
        ignore_formatted=ignore_formatted,
        chance=Chance(1),
        now_ms=1_700_000_000_000,
    )


def meta(filesystem: MemoryFilesystem, path: str = LOG_DIR) -> MetaProperties:
    return MetaProperties.decode(filesystem.read(f"{path}/meta.properties"))


def levels(filesystem: MemoryFilesystem) -> dict[str, int]:
    return {
        record.name: record.feature_level
        for record in read_records(filesystem.read(f"{LOG_DIR}/bootstrap.checkpoint"))
        if isinstance(record, FeatureLevelRecord)
    }


def test_a_node_alone_is_its_own_quorum() -> None:
    filesystem = MemoryFilesystem()
    lines = run(filesystem, standalone=True)
    assert lines[0].startswith("Bootstrap metadata: BootstrapMetadata(records=[ApiMessageAndV")
    assert lines[1] == (
        f"Formatting dynamic metadata voter directory {LOG_DIR} with metadata.version 4.3-IV0."
    )
    written = meta(filesystem)
    assert (written.cluster_id, written.node_id) == (CLUSTER_ID, 1)
    content = read_container(filesystem.read(FIRST))
    assert content.kraft_version == 1
    assert content.voters is not None
    (voter,) = voters_from_record(content.voters)
    assert (voter.key.node_id, voter.key.directory_id) == (1, written.directory_id)
    assert voter.endpoints == (("CONTROLLER", "localhost", 9093),)
    ours = filesystem.read(f"{LOG_DIR}/bootstrap.checkpoint")
    assert without_times(ours) == without_times(BOOTSTRAP_CHECKPOINT)


def test_what_is_formatted_outlives_a_loss_of_power() -> None:
    filesystem = MemoryFilesystem()
    run(filesystem, standalone=True)
    filesystem.crash()
    assert meta(filesystem).node_id == 1
    assert read_container(filesystem.read(FIRST)).voters is not None


def test_a_static_quorum_has_no_voters_on_disk() -> None:
    filesystem = MemoryFilesystem()
    lines = run(filesystem, settings(**STATIC))
    assert lines[1] == f"Formatting metadata directory {LOG_DIR} with metadata.version 4.3-IV0."
    assert not filesystem.exists(DIRECTORY)


def test_every_directory_gets_an_id_of_its_own() -> None:
    filesystem = MemoryFilesystem()
    config = settings(log_dirs="/a,/b,/c", metadata_log_dir="/b")
    lines = run(filesystem, config, standalone=True)
    assert [line.split(" with ")[0] for line in lines[1:]] == [
        "Formatting data directory /a",
        "Formatting data directory /c",
        "Formatting dynamic metadata voter directory /b",
    ]
    assert len({meta(filesystem, path).directory_id for path in ("/a", "/b", "/c")}) == 3
    assert filesystem.exists("/a/bootstrap.checkpoint")


def test_what_is_formatted_is_not_formatted_again() -> None:
    filesystem = MemoryFilesystem()
    run(filesystem, standalone=True)
    before = meta(filesystem)
    with pytest.raises(FormatRefused, match=f"Log directory {LOG_DIR} is already formatted"):
        run(filesystem, standalone=True)
    assert run(filesystem, standalone=True, ignore_formatted=True) == [
        "All of the log directories are already formatted."
    ]
    assert meta(filesystem) == before


def test_the_controllers_of_a_new_quorum_may_be_named() -> None:
    filesystem = MemoryFilesystem()
    own, other = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
    run(filesystem, initial_controllers=f"1@host:9093:{own},2@[::1]:9094:{other}")
    assert meta(filesystem).directory_id == uuid_from_text(own)
    content = read_container(filesystem.read(FIRST))
    assert content.voters is not None
    assert [(v.key.node_id, v.endpoints[0][1:]) for v in voters_from_record(content.voters)] == [
        (1, ("host", 9093)),
        (2, ("::1", 9094)),
    ]


def test_a_node_may_wait_to_join_a_quorum() -> None:
    filesystem = MemoryFilesystem()
    lines = run(filesystem, no_initial_controllers=True)
    assert lines[1].startswith("Formatting metadata directory")
    assert not filesystem.exists(FIRST)


def test_a_release_decides_on_the_features() -> None:
    filesystem = MemoryFilesystem()
    lines = run(filesystem, standalone=True, release_version="3.9")
    assert lines[1].endswith("with metadata.version 3.9-IV0.")
    assert levels(filesystem) == {"metadata.version": 21}


def test_features_may_be_chosen() -> None:
    filesystem = MemoryFilesystem()
    run(filesystem, standalone=True, features={"group.version": 0, "transaction.version": 1})
    found = levels(filesystem)
    assert "group.version" not in found
    assert found["transaction.version"] == 1
    assert next(iter(found)) == "metadata.version"


FLAGS = "--standalone, --initial-controllers, or --no-initial-controllers"


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {}, f"must specify one of the following: {FLAGS}."),
        (STATIC, {"standalone": True}, "You cannot specify controller.quorum.voters and format"),
        (
            {},
            {"standalone": True, "features": {"kraft.version": 0}},
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty",
        ),
        (
            STATIC,
            {"features": {"kraft.version": 1}},
            "Cannot set kraft.version to 1 unless controller.quorum.voters is empty",
        ),
        (
            {},
            {"standalone": True, "features": {"bla": 1}},
            ("Unsupported feature: bla. Supported features are: eligible.leader.replicas.version, "
            "group.version, kraft.version, share.version, streams.version, transaction.version"),
        ),
        (
            {},
            {"standalone": True, "features": {"metadata.version": 1}},
            "Use --release-version instead of --feature metadata.version=X",
        ),
        (
            {},
            {
                "standalone": True,
                "features": {"eligible.leader.replicas.version": 1},
                "release_version": "4.0-IV0",
            },
            "depends on metadata.version level 23",
        ),
        ({}, {"standalone": True, "release_version": "5.0"}, "Unknown metadata.version '5.0'"),
        ({}, {"initial_controllers": "1@x:2"}, "Not a controller as id@host:port:directory-id"),
        ({}, {"initial_controllers": ""}, "No voters given"),
        (
            {},
            {"initial_controllers": ",".join(["1@h:1:JEXY6aqzQY-32P5TStzaFg"] * 2)},
            "Node id 1 was specified more than once",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_and_nothing_is_written(
    changes: dict[str, str], options: dict[str, object], message: str
) -> None:
    filesystem = MemoryFilesystem()
    with pytest.raises(FormatRefused) as refused:
        run(filesystem, settings(**changes), **options)  # type: ignore[arg-type]
    assert message in refused.value.message
    assert not filesystem.exists(LOG_DIR)


def test_only_a_controller_can_be_a_quorum() -> None:
    config = settings(
        process_roles="broker",
        listeners="PLAINTEXT://localhost:9092",
        controller_quorum_bootstrap_servers="localhost:9093",
    )
    with pytest.raises(FormatRefused, match="only use --standalone on a controller"):
        run(MemoryFilesystem(), config, standalone=True)


def test_directories_that_were_made_on_the_way_are_there_after_a_power_cut() -> None:
    filesystem = MemoryFilesystem()
    run(filesystem, settings(log_dirs="/new/deep/data"), standalone=True)
    filesystem.crash()
    assert meta(filesystem, "/new/deep/data").cluster_id == CLUSTER_ID
