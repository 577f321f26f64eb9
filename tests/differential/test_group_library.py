"""What Kafka takes from libraries and we have ourselves: RE2 expressions, the metadata hash."""

import itertools
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.differential.pair import Pair
from tests.differential.wire import ask
from tests.waiting import eventually
from tools.kafka_peer.peer import home, run_tool

from ottla.common.errors import InvalidRegularExpression
from ottla.common.identifiers import uuid_from_text
from ottla.coordinator.group.consumer.metadata_hash import TopicHashes
from ottla.coordinator.group.regex.matcher import Matcher
from ottla.metadata.image import EMPTY_IMAGE
from ottla.metadata.topics import PartitionImage, TopicImage, TopicsImage

PROGRAM = """
import com.google.re2j.*;
import java.nio.file.*;

public class Re2 {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            int cut = line.indexOf('\\t');
            try {
                String name = line.substring(cut + 1);
                System.out.println(Pattern.matches(line.substring(0, cut), name));
            } catch (PatternSyntaxException error) {
                System.out.println(error.getDescription());
            }
        }
    }
}
"""
PARTS = [
    "a", "b.", ".*", "[a-c]+", "[^a]", r"\d", r"\w+", r"\S", r"\bab", r"\B", "^", "$", "(a|bc)",
    "(?:x|)*", "(?i)A", "(?i:b)", "(?s).", "(?m)^a", "(?U)a*", "a{2}", "a{1,}", "a{0,3}?", "a{,3}",
    "[[:digit:]]", "[[:^alpha:]]", r"\pL", r"\p{Lu}", r"\P{N}", r"\p{Greek}", r"\Qa.b\E", r"\x61",
    r"\x{62}", r"\141", r"\.", r"\-", "(?P<n>a)", "(?<m>b)", r"\A", r"\z", r"[\w-]", "[]a]", "[a-]",
]  # fmt: skip
BROKEN = [
    "(", ")", "a)", "[", "[a", "[b-a]", "*", "+a", "?", "a**", "a*+", "a{2}{3}", "(?=a)", "(?!a)",
    "(?<=a)", "(?>a)", r"\1", r"\8", r"\Z", r"\G", r"\C", r"\k<n>", "\\", "x{1001}", "x{2,1}",
    "(x{50}){50}", "(?P<n>a)(?P<n>b)", "(?P<>a)", "(?P<a b>c)", "(?i", "(?z)", "(?i-)", r"\p{Nope}",
    r"\pX", "[[:nope:]]", r"\x{110000}", r"\xg", r"[\Q]\E]", "(?P=n)", r"[a-\d]", r"(?-s:.)",
    "a||b", "^*", "(|a)*", "x{0}", "x{1000}", "()", "[^\\n]",
]  # fmt: skip
NAMES = ["a", "ab", "abc", "aab", "B", "a.b", "1", "a-b", "", "bab", "A_1"]


def ours(expression: str, name: str) -> str:
    try:
        return str(Matcher(expression).matches(name)).lower()
    except InvalidRegularExpression as error:
        return error.message


def test_expressions_match_as_re2j_matches_them(tmp_path: Path) -> None:
    expressions = [*PARTS, *BROKEN, *("".join(pair) for pair in itertools.product(PARTS, PARTS))]
    cases = [(expression, name) for expression in expressions for name in NAMES]
    source, given = tmp_path / "Re2.java", tmp_path / "cases.txt"
    source.write_text(PROGRAM, encoding="ascii")
    given.write_text("".join(f"{one}\t{name}\n" for one, name in cases), encoding="utf-8")
    (library,) = (home() / "libs").glob("re2j-*.jar")
    done = subprocess.run(
        ["java", "-cp", str(library), str(source), str(given)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    theirs = done.stdout.splitlines()
    assert len(theirs) == len(cases)
    different = [
        (expression, name, mine, other)
        for (expression, name), other in zip(cases, theirs, strict=True)
        if (mine := ours(expression, name)) != other
    ]
    assert not different, sorted({(one, mine, other) for one, _, mine, other in different})


def test_the_metadata_hash_is_the_one_that_kafka_stores(pair: Pair) -> None:
    port, group = pair.theirs.port, "hashed"

    def joins() -> bool:
        ask(port, "FindCoordinator", 4, key_type=0, coordinator_keys=[group])
        answer = ask(
            port, "ConsumerGroupHeartbeat", 1, group_id=group, member_id="m", member_epoch=0,
            rebalance_timeout_ms=60_000, subscribed_topic_names=["plain", "trimmed"],
            topic_partitions=[],
        )  # fmt: skip
        return bool(answer["errorCode"] == 0)

    eventually(joins, "a member joins")
    directory = pair.theirs.broker.log_directory
    files = [
        str(path) for path in directory.glob("__consumer_offsets-*/*.log") if path.stat().st_size
    ]
    done = run_tool("kafka-dump-log", "--files", ",".join(files), "--offsets-decoder")
    found = re.search(
        rf'"type":"3","data":{{"groupId":"{group}"}}.*"metadataHash":(-?\d+)', done.stdout
    )
    assert found is not None, done.stdout
    state = PartitionImage((1,), (1,), 1, 0, 0, (bytes(16),))
    topics = {
        name: TopicImage(
            name, uuid_from_text(pair.theirs.topic_id(name)), dict.fromkeys(range(count), state)
        )
        for name, count in (("plain", 4), ("trimmed", 1))
    }
    image = replace(EMPTY_IMAGE, topics=TopicsImage(topics, {}))
    assert TopicHashes().of_group(topics, image) == int(found[1])
