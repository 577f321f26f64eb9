"""What Apache Kafka was hurt by: each as a test of its own, by the number that it has.

Those of logins (CVE-2017-12610, 2022-34917, 2024-56128, 2026-33557, 2026-33558, 2026-110985,
2026-111108, 2026-111115) are in ``test_logins``, those of decompression (CVE-2023-34455,
2023-43642) in ``test_batches``.
"""

import ast
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.machines import Controller
from tests.controller.test_acls import create, creation, delete, wanted
from tests.differential.history import batch
from tests.differential.pair import wait_for_leaders
from tests.differential.wire import Connection, ask
from tests.hostile.secured import ALICE, SecuredBroker, logged_in
from tests.hostile.test_fuzz import create_target
from tests.turns import virtual_time
from tools.kafka_peer.setup import PROJECT

from ottla.common.authorization import AclOperation, Client, PatternType, Permission, ResourceType
from ottla.common.errors import InvalidConfig
from ottla.config.authorizer import AuthorizerSettings
from ottla.config.broker import BrokerConfig
from ottla.metadata.audit import Audit
from ottla.metadata.difference import difference
from ottla.metadata.image import MetadataImage
from ottla.metadata.standard_authorizer import StandardAuthorizer
from ottla.requests.context import RequestContext
from ottla.security.listener_settings import SaslOfListener
from ottla.security.mechanism import user

pytestmark = pytest.mark.usefixtures("bystander")

Json = Any
TOPIC: Final = "target"
DENIED_TOPIC, DENIED_ID, DENIED_CLUSTER = 29, 53, 31
SECRETS: Final = {
    "password", "wanted", "given", "proof", "stored_key", "server_key", "signature", "hmac",
    "salted", "salted_password", "secret", "client_key",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def target(secured: SecuredBroker) -> None:
    """A topic that alice may read and write; her rights end there."""
    create_target(secured.port)
    wait_for_leaders(secured.port, TOPIC)
    acl = {"resource_type": 2, "resource_name": TOPIC, "resource_pattern_type": 3, "host": "*",
           "principal": f"User:{ALICE}", "permission_type": 3}  # fmt: skip
    made = ask(secured.port, "CreateAcls", 3, creations=[{**acl, "operation": 3},
                                                         {**acl, "operation": 4}])  # fmt: skip
    assert [each["errorCode"] for each in made["results"]] == [0, 0]


def high_watermark(port: int) -> int:
    asked = [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    answer = ask(port, "ListOffsets", 7, replica_id=-1, topics=asked)
    return int(answer["topics"][0]["partitions"][0]["offset"])


def produce(connection: Connection, records: bytes, **fields: Json) -> int:
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}]
    asked = {"acks": -1, "timeout_ms": 5000, "topic_data": data, **fields}
    answer = connection.ask("Produce", 9, asked)
    return int(answer["responses"][0]["partitionResponses"][0]["errorCode"])


@pytest.mark.parametrize("replica_id", [0, 1, 2, 2**31 - 1])
@pytest.mark.parametrize("version", [4, 12, 15, 17])
def test_cve_2018_1288_replica_fetches_are_for_brokers(
    version: int, replica_id: int, secured: SecuredBroker
) -> None:
    """Who may read a topic still is no follower of it, and moves no high watermark."""
    before = high_watermark(secured.port)
    partition = {"partition": 0, "fetch_offset": before + 1000, "partition_max_bytes": 1000}
    ids = {each["name"]: each["topicId"] for each in
           ask(secured.port, "Metadata", 12, topics=[{"name": TOPIC}])["topics"]}  # fmt: skip
    topic = {"topic": TOPIC, "topic_id": ids[TOPIC], "partitions": [partition]}
    asked = {"replica_id": replica_id, "replica_state": {"replica_id": replica_id},
             "max_wait_ms": 0, "topics": [topic]}  # fmt: skip
    with logged_in(secured.sasl) as alice:
        answer = alice.ask("Fetch", version, asked)
    (found,) = answer["responses"][0]["partitions"]
    assert found["errorCode"] == DENIED_TOPIC
    assert not found["records"]
    assert high_watermark(secured.port) == before


@pytest.mark.parametrize("transactional_id", [None, "", "not-hers"])
def test_cve_2018_17196_transactional_batches_need_their_id_whatever_the_header_says(
    transactional_id: str | None, secured: SecuredBroker
) -> None:
    before = high_watermark(secured.port)
    records = batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    with logged_in(secured.sasl) as alice:
        assert produce(alice, batch()) == 0
        assert produce(alice, records, transactional_id=transactional_id) == DENIED_ID
        hidden = batch() + records  # behind a batch that is none
        assert produce(alice, hidden, transactional_id=transactional_id) != 0
    assert high_watermark(secured.port) == before + 1


def test_cve_2019_12399_secrets_are_shown_to_nobody(secured: SecuredBroker) -> None:
    """Not even to those that may describe everything."""
    broker = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    answer = ask(secured.port, "DescribeConfigs", 4, resources=[broker], include_synonyms=True)
    configs = answer["results"][0]["configs"]
    assert len(configs) > 100
    for word in ("alice-secret", "admin-secret", "PRIVATE KEY"):
        assert word not in str(configs)
    named = {each["name"]: each for each in configs}
    jaas = "listener.name.sasl.plain.sasl.jaas.config"
    for name in (jaas, "ssl.keystore.key"):
        if name in named:
            assert (named[name]["value"], named[name]["isSensitive"]) == (None, True)


def comparisons(tree: ast.AST) -> Iterator[ast.Compare]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            yield node


def test_cve_2021_38153_secrets_are_compared_in_constant_time() -> None:
    """By compare_digest only: no ``==`` has a secret on either side.

    What ``tls_stores`` compares are two settings of the same file.
    """
    found = []
    for path in sorted((PROJECT / "src" / "ottla" / "security").glob("*.py")):
        if path.name == "tls_stores.py":
            continue
        for node in comparisons(ast.parse(path.read_text(encoding="utf-8"))):
            for side in (node.left, *node.comparators):
                name = side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
                if name in SECRETS:
                    found.append(f"{path.name}:{node.lineno} {name}")
    assert not found


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "os.system",
    ],
)
def test_cve_2023_25194_2025_27818_2025_27819_login_modules_are_names(module: str) -> None:
    """They are compared with those that are known, and nothing is ever loaded."""
    text = f'{module} required user.provider.url="ldap://127.0.0.1:1/x";'
    config = BrokerConfig.from_properties(
        {
            "node.id": "1",
            "process.roles": "broker",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "127.0.0.1:1",
            "listener.name.sasl.plain.sasl.jaas.config": text,
        }
    )
    with pytest.raises(InvalidConfig, match="cannot be loaded"):
        SaslOfListener(config, "SASL").jaas("PLAIN")


def test_cve_2024_31141_a_remote_config_reads_no_file(secured: SecuredBroker) -> None:
    """What looks like a reference to a provider is text: refused, or kept as it is."""
    reference = "${file:/etc/passwd:root}"
    for name in ("retention.ms", "leader.replication.throttled.replicas"):
        config = {"name": name, "config_operation": 0, "value": reference}
        topic = {"resource_type": 2, "resource_name": TOPIC, "configs": [config]}
        answer = ask(secured.port, "IncrementalAlterConfigs", 1, resources=[topic])
        assert answer["responses"][0]["errorCode"] != 0
        assert "root:" not in str(answer)


@pytest.mark.parametrize(
    "topics",
    [[], [{"name": "__cluster_metadata", "partitions": []}], [{"name": "", "partitions": []}]],
)
def test_cve_2026_83525_an_empty_fetch_of_a_snapshot_ends_no_controller(
    topics: list[Json], secured: SecuredBroker
) -> None:
    for version in (0, 1):
        with Connection(secured.controller_port) as connection:
            answer = connection.ask("FetchSnapshot", version, {"replica_id": 9, "topics": topics})
        assert all(not each["partitions"] for each in answer["topics"])
    assert secured.is_running()
    found = ask(secured.controller_port, "DescribeCluster", 1, endpoint_type=2)
    assert found["errorCode"] == 0, "the controller still answers"


def test_cve_2026_41115_the_right_to_describe_a_group_is_asked_for(secured: SecuredBroker) -> None:
    with logged_in(secured.sasl) as alice:
        answer = alice.ask("ConsumerGroupDescribe", 1, {"group_ids": ["a-group"]})
    assert answer["groups"][0]["errorCode"] == 30


ACLS: Final = st.lists(
    st.builds(
        creation,
        st.sampled_from(["a", "ab", "abc", "*", "b"]),
        resource_pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        principal=st.sampled_from(["User:x", "User:y", "User:*"]),
        host=st.sampled_from(["*", "10.0.0.1"]),
        operation=st.sampled_from([AclOperation.READ, AclOperation.WRITE, AclOperation.ALL]),
        permission_type=st.sampled_from([Permission.ALLOW, Permission.DENY]),
    ),
    min_size=1,
    max_size=12,
    unique_by=str,
)


def decisions(*images: MetadataImage) -> list[bool]:
    """All that an authorizer says of some people, hosts and names when it has seen the images."""
    authorizer = StandardAuthorizer(
        AuthorizerSettings(frozenset(), allow_everyone=False), Audit(virtual_time(1).call_later)
    )
    before = MetadataImage()
    for image in images:
        authorizer.changed(image, difference(before, image))
        before = image
    authorizer.loaded()
    return [
        authorizer.allows(_client(name, host), operation, ResourceType.TOPIC, topic)
        for name in ("x", "y", "z")
        for host in ("10.0.0.1", "10.0.0.2")
        for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
        for topic in ("a", "ab", "abcd", "b", "c")
    ]


def _client(name: str, host: str) -> Client:
    context = RequestContext(version=0)
    context.principal, context.peer_host = user(name), host
    return context


@given(acls=ACLS, chosen=st.integers(0, 11))
def test_cve_2024_27309_to_remove_one_acl_leaves_all_others(acls: list[Any], chosen: int) -> None:
    """What was decided by n - 1 of them is what is decided after the last of n was removed."""
    one = acls[chosen % len(acls)]
    others = [each for each in acls if each is not one]
    with_all, without_it = Controller(brokers=1), Controller(brokers=1)
    create(with_all, *acls)
    before = with_all.machine.image
    if others:
        create(without_it, *others)
    removed = delete(
        with_all,
        wanted(
            resource_type_filter=one.resource_type,
            resource_name_filter=one.resource_name,
            pattern_type_filter=one.resource_pattern_type,
            principal_filter=one.principal,
            host_filter=one.host,
            operation=one.operation,
            permission_type=one.permission_type,
        ),
    )
    assert removed == [[one.resource_name]]
    left = sorted(map(str, with_all.machine.image.acls.values()))
    assert left == sorted(map(str, without_it.machine.image.acls.values()))
    assert decisions(before, with_all.machine.image) == decisions(without_it.machine.image)
