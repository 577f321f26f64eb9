"""The regular expressions of a group, and the topics that they match now.

What an expression matches is stored with the group, and looked for again when a new expression
comes, when topics have come since, and when ``group.consumer.regex.refresh.interval.ms`` is over;
but not within ten seconds of the last time, and for all expressions of the group together, so that
they cost one rebalance.

Matching is done in slices, each a turn of the loop with a bounded amount of work: an expression may
be large, and there may be many topics. What the member may not describe, whose request makes the
group look, is not matched.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final

from ottla.common.errors import InvalidRegularExpression
from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.records import epoch_record, regex_record, regex_tombstone
from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.group.regex.matcher import Matcher
from ottla.coordinator.shard import Outcome

REFRESH_INTERVAL_MIN_MS: Final = 10_000
WORK_IN_A_TURN: Final = 50_000
"""Steps of matchers; a few milliseconds."""


class RegexChange(Enum):
    NONE = auto()
    CHANGED = auto()
    """The group's epoch grows when it is known what the expression matches."""
    CHANGED_AND_RESOLVED = auto()


class Regexes:
    def __init__(self, context: ConsumerContext) -> None:
        self._context = context

    def update(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        caller: Caller,
        now_ms: int,
        records: list[GroupRecord],
    ) -> RegexChange:
        """Take note of a member's expression, and look for topics where it is time to."""
        change, is_new = self._compare(group, old, new, records)
        if not is_new and not group.subscribed_regexes:
            return change
        if self._key(group.group_id) in self._context.timers:
            return change
        last_ms = self._last_refresh_ms(group)
        if last_ms <= now_ms <= last_ms + REFRESH_INTERVAL_MIN_MS:
            return change
        expressions = set(group.subscribed_regexes)
        if old.subscribed_regex and group.regex_count(old.subscribed_regex) == 1:
            expressions.discard(old.subscribed_regex)
        if new.subscribed_regex:
            expressions.add(new.subscribed_regex)
        if expressions and (is_new or self._is_due(group, expressions, now_ms)):
            self._look_for_topics(group.group_id, sorted(expressions), caller)
        return change

    def _compare(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        records: list[GroupRecord],
    ) -> tuple[RegexChange, bool]:
        """What has changed, and whether there is an expression that the group does not know."""
        before, after = old.subscribed_regex, new.subscribed_regex
        if before == after:
            return RegexChange.NONE, False
        if before and group.regex_count(before) == 1:
            records.append(regex_tombstone(group.group_id, before))
        if not after:
            return RegexChange.CHANGED_AND_RESOLVED, False
        if group.regex_count(after) == 0:
            check_expression(after)
            return RegexChange.CHANGED, True
        resolved = group.regexes.get(after) is not None
        return RegexChange.CHANGED_AND_RESOLVED if resolved else RegexChange.CHANGED, False

    def _last_refresh_ms(self, group: ConsumerGroup) -> int:
        """Of all expressions, since they are looked at together; long ago when there are none."""
        times = [resolved.timestamp_ms for resolved in group.regexes.values()]
        return min(times, default=-(1 << 62))

    def _is_due(self, group: ConsumerGroup, expressions: set[str], now_ms: int) -> bool:
        versions = [resolved.version for resolved in group.regexes.values()]
        interval_ms = self._context.settings.consumer_regex_refresh_interval_ms
        last_ms = self._last_refresh_ms(group)
        return (
            len(expressions) != len(versions)
            or min(versions) < self._context.newest_topic_offset
            or not last_ms <= now_ms <= last_ms + interval_ms
        )

    def _key(self, group_id: str) -> tuple[str, str]:
        return ("regex", group_id)

    def _look_for_topics(self, group_id: str, expressions: list[str], caller: Caller) -> None:
        image = self._context.image
        found: dict[str, set[str]] = {expression: set() for expression in expressions}
        slices = _slices(found, list(image.topics.by_name), caller.may_describe)

        def go_on(now_ms: int) -> Outcome[GroupRecord, None]:
            if next(slices, None) is not None:
                self._context.timers.schedule(self._key(group_id), 0, go_on)
                return Outcome([], None)
            return self._resolved(group_id, found, image.offset, now_ms)

        self._context.timers.schedule(self._key(group_id), 0, go_on)

    def _resolved(
        self, group_id: str, found: dict[str, set[str]], version: int, now_ms: int
    ) -> Outcome[GroupRecord, None]:
        group = self._context.find(group_id)
        if group is None:
            return Outcome([], None)
        records: list[GroupRecord] = []
        changed = False
        topics = set(group.topics_without([]))
        for expression, matched in found.items():
            if not group.regex_count(expression):
                continue
            old = group.regexes.get(expression) or ResolvedRegex(frozenset(), 0, 0)
            changed = changed or old.topics != matched
            records.append(regex_record(group_id, expression, matched, version, now_ms))
        if changed:
            topics = set(group.topics_by_name)
            for expression in group.subscribed_regexes:
                known = group.regexes.get(expression)
                topics |= found.get(expression) or (frozenset() if known is None else known.topics)
        metadata_hash = self._context.metadata_hash(topics)
        if changed or metadata_hash != group.metadata_hash:
            records.append(epoch_record(group_id, group.epoch + 1, metadata_hash))
            group.seen = (self._context.image.topics, group.epoch + 1)
        return Outcome(records, None)


def check_expression(expression: str) -> None:
    try:
        Matcher(expression)
    except InvalidRegularExpression as error:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: "
            f"{error.message}."
        ) from None


def _slices(
    found: dict[str, set[str]], names: list[str], may_describe: Callable[[str], bool] | None
) -> Iterator[bool]:
    """Match all names with all expressions; yield True whenever it is time for others."""
    work = 0
    for expression, matched in found.items():
        try:
            matcher = Matcher(expression)
        except InvalidRegularExpression:
            continue  # it came from a record, and was valid for its writer
        for name in names:
            before = matcher.work
            if matcher.matches(name) and (may_describe is None or may_describe(name)):
                matched.add(name)
            work += matcher.work - before
            if work >= WORK_IN_A_TURN:
                work = 0
                yield True
