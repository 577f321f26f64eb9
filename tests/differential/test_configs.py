"""Configs described and changed: values, sources, synonyms, and what may not be said."""

from typing import Any

from tests.differential.pair import Pair

Json = Any
UNKNOWN, TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Json]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def describe(pair: Pair, what: str, *resources: dict[str, Json], **more: Json) -> None:
    pair.ask("DescribeConfigs", what, resources=list(resources), **more)


def test_configs_of_topics(pair: Pair) -> None:
    describe(pair, "all of a topic", resource(TOPIC, "plain"))
    describe(pair, "all of a topic that has its own", resource(TOPIC, "configured"))
    describe(pair, "with synonyms", resource(TOPIC, "configured"), include_synonyms=True)
    describe(pair, "with documentation", resource(TOPIC, "plain", ["retention.ms"]),
             include_documentation=True, versions=[3, 4])  # fmt: skip
    describe(pair, "some", resource(TOPIC, "plain", ["retention.ms", "no.such"]))
    describe(pair, "none", resource(TOPIC, "plain", []))
    describe(pair, "unknown", resource(TOPIC, "nowhere"))
    describe(pair, "a bad name", resource(TOPIC, "a/b"))
    describe(pair, "an empty name", resource(TOPIC, ""))
    describe(pair, "several", resource(TOPIC, "plain", ["retention.ms"]),
             resource(TOPIC, "nowhere"), resource(TOPIC, "small", ["segment.ms"]))  # fmt: skip
    describe(pair, "nothing")


def test_configs_of_brokers(pair: Pair) -> None:
    describe(pair, "all of a broker", resource(BROKER, "1"))
    describe(pair, "all of a broker with synonyms", resource(BROKER, "1"), include_synonyms=True,
             versions=[4])  # fmt: skip
    describe(pair, "all of a broker with documentation", resource(BROKER, "1"),
             include_documentation=True, versions=[4])  # fmt: skip
    describe(pair, "all of all brokers", resource(BROKER, ""))
    describe(pair, "another broker", resource(BROKER, "2"))
    describe(pair, "no number", resource(BROKER, "one"))
    describe(pair, "some", resource(BROKER, "1", ["num.partitions", "log.retention.ms"]))


def test_configs_of_other_things(pair: Pair) -> None:
    describe(pair, "loggers", resource(BROKER_LOGGER, "2"))
    describe(pair, "loggers of no number", resource(BROKER_LOGGER, "x"))
    describe(pair, "a group", resource(GROUP, "some-group"))
    describe(pair, "a group without a name", resource(GROUP, ""))
    describe(pair, "client metrics", resource(CLIENT_METRICS, "some"))
    describe(pair, "client metrics without a name", resource(CLIENT_METRICS, ""))
    for kind in (UNKNOWN, 1, 3, 99, -1):
        describe(pair, f"kind {kind}", resource(kind, "x"))


def change(name: str, operation: int, value: str | None) -> dict[str, Json]:
    return {"name": name, "config_operation": operation, "value": value}


def alter(
    pair: Pair, what: str, kind: int, name: str, *changes: dict[str, Json], **more: Json
) -> None:
    described = {"resource_type": kind, "resource_name": name, "configs": list(changes)}
    pair.ask("IncrementalAlterConfigs", what, resources=[described], **more)


def test_incremental_changes_of_topics(pair: Pair) -> None:
    pair.create("changed")

    def on_topic(what: str, *changes: dict[str, Json], **more: Json) -> None:
        alter(pair, what, TOPIC, "changed", *changes, **more)
        describe(pair, f"after {what}", resource(TOPIC, "changed"), versions=[4])

    on_topic("set", change("retention.ms", SET, "1234"))
    on_topic("set two", change("segment.ms", SET, "99999"), change("segment.bytes", SET, "2000000"))
    on_topic("append", change("cleanup.policy", APPEND, "compact"))
    on_topic("append what is there", change("cleanup.policy", APPEND, "compact"))
    on_topic("subtract", change("cleanup.policy", SUBTRACT, "delete"))
    on_topic("subtract what is not there", change("cleanup.policy", SUBTRACT, "delete"))
    on_topic("delete", change("retention.ms", DELETE, None))
    on_topic("delete what is not set", change("retention.bytes", DELETE, None))
    on_topic("only to see", change("retention.bytes", SET, "77"), validate_only=True)
    on_topic("append to a number", change("retention.ms", APPEND, "1"))
    on_topic("an unknown operation", change("retention.ms", 9, "1"))
    on_topic("a null value", change("retention.ms", SET, None))
    on_topic("a bad value", change("retention.ms", SET, "soon"))
    on_topic("an unknown name", change("no.such", SET, "1"))
    on_topic("delete an unknown name", change("no.such", DELETE, None))
    on_topic(
        "the same name twice", change("retention.ms", SET, "1"), change("retention.ms", SET, "2")
    )
    on_topic("good and bad", change("segment.ms", SET, "5"), change("segment.bytes", SET, "x"))
    on_topic("an empty value", change("retention.ms", SET, ""))
    on_topic("nothing")


def test_lists_that_are_odd(pair: Pair) -> None:
    pair.create("listed")
    policy, throttled = "cleanup.policy", "leader.replication.throttled.replicas"

    def on_topic(what: str, *changes: dict[str, Json], **more: Json) -> None:
        alter(pair, what, TOPIC, "listed", *changes, **more)
        keys = [policy, throttled]
        describe(pair, f"after {what}", resource(TOPIC, "listed", keys), versions=[4])

    on_topic("an empty list", change(policy, SET, ""))
    on_topic("append to an empty list", change(policy, APPEND, "compact"))
    on_topic("subtract all", change(policy, SUBTRACT, "compact"))
    on_topic("subtract from the default", change(policy, DELETE, None))
    for text in ("compact,", ",compact", "", ",", " compact", "compact,compact", "delete", "x"):
        on_topic(f"append {text!r}", change(policy, APPEND, text))
        on_topic(f"subtract {text!r}", change(policy, SUBTRACT, text))
        on_topic("back again", change(policy, DELETE, None))
    on_topic("repeated", change(policy, SET, "compact,compact,delete"))
    on_topic("append to repeated", change(policy, APPEND, "delete"))
    on_topic("subtract once of repeated", change(policy, SUBTRACT, "compact"))
    on_topic("replicas", change(throttled, APPEND, "0:1,1:1"))
    on_topic("all replicas", change(throttled, APPEND, "*"))
    on_topic("fewer replicas", change(throttled, SUBTRACT, "0:1,1:1"))
    on_topic(
        "blanks", change("retention.ms", SET, " 5 "), change(policy, SET, " compact , delete ")
    )


def test_names_of_brokers_that_are_odd(pair: Pair) -> None:
    for name in ("01", "+1", " 1", "1_0", "-1", "1.0", "1e0", "\u0661", "99999999999"):
        alter(pair, f"broker {name!r}", BROKER, name, change("background.threads", SET, "11"))
        describe(pair, f"the broker {name!r}", resource(BROKER, name, ["background.threads"]))
        alter(
            pair, f"broker {name!r} back", BROKER, name, change("background.threads", DELETE, None)
        )


def test_incremental_changes_of_what_is_not_there(pair: Pair) -> None:
    one = change("retention.ms", SET, "1234")
    alter(pair, "an unknown topic", TOPIC, "nowhere", one)
    alter(pair, "a bad topic", TOPIC, "a/b", one)
    alter(pair, "an empty topic", TOPIC, "", one)
    for kind in (UNKNOWN, 1, 99):
        alter(pair, f"kind {kind}", kind, "x", one)
    twice = {"resource_type": TOPIC, "resource_name": "plain", "configs": [one]}
    pair.ask("IncrementalAlterConfigs", "a topic twice", resources=[twice, twice])
    pair.ask("IncrementalAlterConfigs", "nothing", resources=[])


def test_incremental_changes_of_brokers(pair: Pair) -> None:
    def on_broker(what: str, name: str, *changes: dict[str, Json], **more: Json) -> None:
        alter(pair, what, BROKER, name, *changes, **more)
        described = resource(BROKER, name)
        describe(pair, f"after {what}", described, versions=[4], include_synonyms=True)

    on_broker("for all", "", change("log.segment.bytes", SET, "3000000"))
    on_broker("for one", "1", change("log.segment.bytes", SET, "4000000"))
    describe(pair, "a topic below", resource(TOPIC, "plain"), versions=[4], include_synonyms=True)
    on_broker("delete for one", "1", change("log.segment.bytes", DELETE, None))
    on_broker("delete for all", "", change("log.segment.bytes", DELETE, None))
    on_broker("what cannot change", "1", change("node.id", SET, "5"))
    on_broker("what only one broker may have", "", change("listeners", SET, "PLAINTEXT://:1"))
    on_broker("a bad value", "1", change("num.io.threads", SET, "-1"))
    on_broker("an unknown name", "1", change("no.such", SET, "x"))
    on_broker("delete an unknown name", "1", change("no.such", DELETE, None))
    on_broker("another broker", "2", change("log.retention.ms", SET, "1000000"))
    on_broker("no number", "one", change("log.retention.ms", SET, "1000000"))
    on_broker("threads", "1", change("background.threads", SET, "12"), validate_only=True)


def test_changes_of_groups_and_metrics(pair: Pair) -> None:
    timeout = change("consumer.session.timeout.ms", SET, "50000")
    alter(pair, "a group", GROUP, "changed-group", timeout)
    describe(pair, "the group afterwards", resource(GROUP, "changed-group"), versions=[4])
    alter(pair, "a group too low", GROUP, "g", change("consumer.session.timeout.ms", SET, "5"))
    alter(pair, "an unknown config of a group", GROUP, "g", change("no.such", SET, "5"))
    alter(pair, "no group", GROUP, "", timeout)
    alter(pair, "metrics", CLIENT_METRICS, "m", change("interval.ms", SET, "1000"))
    alter(pair, "bad metrics", CLIENT_METRICS, "m", change("interval.ms", SET, "1"))
    describe(pair, "the metrics afterwards", resource(CLIENT_METRICS, "m"), versions=[4])
    for version, kinds in (
        (0, None),
        (1, []),
        (1, [TOPIC]),
        (1, [BROKER]),
        (1, [GROUP, 16]),
        (1, [8]),
    ):
        fields: Json = {} if kinds is None else {"resource_types": kinds}
        pair.ask("ListConfigResources", f"kinds {kinds}", versions=[version], **fields)
    pair.ask("ListConfigResources", "kinds that are none", versions=[1], resource_types=[77])


def replace(
    pair: Pair, what: str, kind: int, name: str, config: dict[str, str | None], **more: Json
) -> None:
    configs = [{"name": key, "value": value} for key, value in config.items()]
    described = {"resource_type": kind, "resource_name": name, "configs": configs}
    pair.ask("AlterConfigs", what, resources=[described], **more)


def test_changes_the_old_way(pair: Pair) -> None:
    pair.create("replaced", retention_ms="1000")

    def on_topic(what: str, config: dict[str, str | None], **more: Json) -> None:
        replace(pair, what, TOPIC, "replaced", config, **more)
        describe(pair, f"after {what}", resource(TOPIC, "replaced"), versions=[4])

    on_topic("one", {"segment.ms": "12345"})
    on_topic("another", {"retention.ms": "54321"})
    on_topic("only to see", {"retention.ms": "1"}, validate_only=True)
    on_topic("a bad value", {"retention.ms": "soon"})
    on_topic("an unknown name", {"no.such": "1"})
    on_topic("a null value", {"retention.ms": None})
    on_topic("nothing", {})
    replace(pair, "an unknown topic", TOPIC, "nowhere", {"retention.ms": "1"})
    replace(pair, "a bad topic", TOPIC, "a/b", {"retention.ms": "1"})
    replace(pair, "a broker", BROKER, "1", {"log.segment.ms": "7000000"})
    describe(pair, "the broker afterwards", resource(BROKER, "1"), versions=[4])
    replace(pair, "a broker back", BROKER, "1", {})
    replace(pair, "an unknown kind", 99, "x", {"a": "b"})
    pair.ask("AlterConfigs", "nothing at all", resources=[])
