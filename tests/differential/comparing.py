"""Two answers to one request, side by side: what may differ between two clusters, and what may not.

Identifiers, ports, directories and the clock are replaced by words before the comparison. The texts
of error messages are our own: only whether there is one is compared. Every other difference
is reported unless ``ALLOWED`` names it, with the entry of DIFFERENCES.md that explains it.
"""

import base64
import fnmatch
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tests.differential.wire import ZERO_UUID_TEXT

Json = Any
COMPARE_MESSAGES: Final = os.environ.get("OTTLA_COMPARE_MESSAGES") == "1"

# Fields that say something about this very cluster, wherever they stand.
_ALWAYS: Final = {
    "port": "<port>",
    "totalBytes": "<bytes>",
    "usableBytes": "<bytes>",
    "lastFetchTimestamp": "<time>",
    "lastCaughtUpTimestamp": "<time>",
    "logAppendTimeMs": "<time>",
    "replicaDirectoryId": "<directory>",
    "lastTimestamp": "<time>",
    "transactionStartTimeMs": "<time>",
    "finalizedFeaturesEpoch": "<epoch>",
}
# The metadata log is as long as the cluster's history has made it.
_OF_ONE_API: Final = {
    "DescribeQuorum": {
        "logEndOffset": "<offset>",
        "highWatermark": "<offset>",
        "leaderEpoch": "<epoch>",
    },
}
# Replaced only where they are not the value that means "none".
_UNLESS: Final = {"sessionId": 0, "producerId": -1, "topicId": ZERO_UUID_TEXT}
_MESSAGES: Final = {"errorMessage", "batchIndexErrorMessage", "documentation"}
_NO_TIME: Final = -1


class Allowed(NamedTuple):
    """A difference that is meant: where it is (patterns), and where it is explained."""

    api: str
    scenario: str
    path: str
    difference: str  # a heading of DIFFERENCES.md


MORE_MESSAGES: Final = "errors-say-more"
NAMED_ERRORS: Final = "errors-have-names"
DAMAGE_IN_BATCHES: Final = "compressed-batches-are-read-to-the-end"
WHOLE_BATCHES: Final = "whole-batches"
RIGHTS_FIRST: Final = "rights-are-asked-for-first"
SCRAM_USERS: Final = "scram-users-are-described-everywhere"
QUOTAS_ONCE: Final = "refused-quotas-are-not-set"
SHARE_STATE: Final = "__share_group_state"

# One line per intended difference. "*" stands for anything.
ALLOWED: Final[tuple[Allowed, ...]] = (
    Allowed("ApiVersions", "*", "answer.apiKeys*", "apis-not-served-are-not-advertised"),
    Allowed("FindCoordinator", "a share group", "*", "share-groups-are-not-served"),
    Allowed("DescribeClientQuotas", "after twice", "answer.entries*", QUOTAS_ONCE),
    Allowed("DescribeConfigs", "*", "*.configs?ottla.*", "settings-of-our-own"),
    Allowed("Produce", "null", "*", "null-records-are-answered"),
    Allowed("Fetch", "what lies in bad-a-wrong-offset-delta", "*", DAMAGE_IN_BATCHES),
    Allowed("Fetch", "partition limit *", "*.records", WHOLE_BATCHES),
    Allowed("Fetch", "request limit *", "*.records", WHOLE_BATCHES),
    Allowed("Fetch", "several partitions within *", "*.records", WHOLE_BATCHES),
    Allowed("CreateTopics", "the metadata, *", "answer.topics*.errorCode", RIGHTS_FIRST),
    Allowed("CreateTopics", "one twice, *", "answer.topics*.errorCode", RIGHTS_FIRST),
    Allowed("SyncGroup", "without a protocol, *", "answer.errorCode", RIGHTS_FIRST),
    Allowed("DescribeConfigs", "of an unknown kind, *", "answer.results*.errorCode", RIGHTS_FIRST),
    Allowed("DescribeUserScramCredentials", "of two, *", "answer.results", SCRAM_USERS),
    Allowed("DescribeUserScramCredentials", "*, controller", "answer.errorCode", SCRAM_USERS),
)


@dataclass(frozen=True, slots=True)
class Difference:
    api: str
    version: int
    scenario: str
    path: str
    ours: Json
    theirs: Json

    @property
    def text(self) -> str:
        """What differs, without the version in which it does."""
        return (
            f"[{self.scenario}] {self.path}: "
            f"ours {_short(self.ours)}, Apache Kafka's {_short(self.theirs)}"
        )

    @property
    def explained_by(self) -> str | None:
        """The entry of DIFFERENCES.md.

        Two hold everywhere: a text of ours where Kafka says nothing, and a refusal by name where
        Kafka only says that something went wrong in it.
        """
        if self.path.endswith("rrorMessage") and self.theirs is None:
            return MORE_MESSAGES
        if self.path.endswith("rrorCode") and self.theirs == -1 and self.ours > 0:
            return NAMED_ERRORS
        for row in ALLOWED:
            if (
                fnmatch.fnmatchcase(self.api, row.api)
                and fnmatch.fnmatchcase(self.scenario, row.scenario)
                and fnmatch.fnmatchcase(self.path, row.path)
            ):
                return row.difference
        return None


def report(found: list[Difference]) -> list[str]:
    """A line for each difference, with all the versions that show it."""
    versions: dict[tuple[str, str], list[int]] = {}
    for each in found:
        versions.setdefault((each.api, each.text), []).append(each.version)
    return [
        f"{api} v{','.join(str(version) for version in seen)} {text}"
        for (api, text), seen in versions.items()
    ]


def _short(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) < 300 else f"{text[:300]}..."


class Names:
    """What a cluster calls its own: the words by which its identifiers are replaced."""

    def __init__(self, words: dict[str, str], api: str) -> None:
        self.words = words
        self._own = _OF_ONE_API.get(api, {})

    def normalise(self, value: Json, name: str = "") -> Json:
        if isinstance(value, dict):
            return {key: self.normalise(one, key) for key, one in value.items()}
        if isinstance(value, list):
            seen = [self.normalise(one, name) for one in value if not _is_of_a_later_age(one)]
            return sorted(seen, key=_identity)
        if name in _MESSAGES and not (COMPARE_MESSAGES and name != "documentation"):
            return "<text>" if value else None
        if name == "records" and isinstance(value, str):
            return _summary(value)
        if name in self._own:
            return self._own[name]
        if name in _ALWAYS:
            return value if value == _NO_TIME else _ALWAYS[name]
        if name in _UNLESS and value == _UNLESS[name]:
            return value
        if name == "topicId":
            return self.words.get(value, "<topic id>")
        if name in _UNLESS:
            return f"<{name}>"
        if isinstance(value, str):
            return self._replace(value)
        return value

    def _replace(self, text: str) -> str:
        for own, word in self.words.items():
            if len(own) > 3 and own in text:
                text = text.replace(own, word)
        return text


def _is_of_a_later_age(item: Json) -> bool:
    """Whether this is the topic that Kafka makes for coordinators that we do not have yet."""
    return isinstance(item, dict) and SHARE_STATE in (item.get("name"), item.get("resourceName"))


def _summary(records: str) -> str:
    """Records as a length and a digest: equal when the bytes are, and short when they are not."""
    data = base64.b64decode(records)
    return f"{len(data)} bytes, {hashlib.sha256(data).hexdigest()[:8]}" if data else ""


_IDENTITY_FIELDS: Final = (
    "name", "topicName", "resourceName", "topic", "topicId", "groupId", "transactionalId",
    "memberId", "user", "logDir", "partitionIndex", "partition", "partitionId", "index", "apiKey",
    "nodeId", "brokerId", "replicaId", "key", "timestamp", "batchIndex", "entityType",
)  # fmt: skip


def _identity(value: Json) -> tuple[str, ...]:
    """By which lists are put in order: the same item of both answers comes to the same place."""
    if isinstance(value, dict):
        found = [value.get(name) for name in _IDENTITY_FIELDS]
        return tuple(f"{one:>12}" if isinstance(one, int) else str(one or "") for one in found)
    return (f"{value:>12}" if isinstance(value, int) else json.dumps(value),)


def differences(ours: Json, theirs: Json, path: str) -> Iterator[tuple[str, Json, Json]]:
    """Every place where two normalised answers are not the same."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(set(ours) | set(theirs)):
            here = f"{path}.{key}"
            if key not in ours or key not in theirs:
                yield here, ours.get(key, "<nothing>"), theirs.get(key, "<nothing>")
            else:
                yield from differences(ours[key], theirs[key], here)
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from _list_differences(ours, theirs, path)
    elif ours != theirs or type(ours) is not type(theirs):
        yield path, ours, theirs


def _list_differences(
    ours: list[Json], theirs: list[Json], path: str
) -> Iterator[tuple[str, Json, Json]]:
    """Items with the same identity are compared, the others are named."""
    left = {_identity(one): one for one in ours}
    right = {_identity(one): one for one in theirs}
    if len(left) != len(ours) or len(right) != len(theirs) or not left:
        if ours != theirs:
            yield path, ours, theirs
        return
    for key in sorted(set(left) | set(right)):
        label = ",".join(part.strip() for part in key if part.strip())[:60]
        here = f"{path}[{label}]"
        if key not in left or key not in right:
            yield here, left.get(key, "<nothing>"), right.get(key, "<nothing>")
        else:
            yield from differences(left[key], right[key], here)
