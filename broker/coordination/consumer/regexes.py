"""Regular expressions of a consumer group: which topics they match is found beside the machine, and kept in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from .. import expressions
from ..groups.events import Outcome
from ..groups.group import Group
from ..groups.records import PartRecord
from ..modern.target import metadata_hash
from . import changes
from .events import RegexesResolved
from .state import ConsumerGroup, Match, Resolved
from .target import Draft

# Kafka has no bound. Java's and librdkafka's users write some dozen characters.
MAX_REGEX_LENGTH = 4096
# Names of topics that one step writes into the records of regular expressions: a microsecond each.
NAMES_PER_TURN = 5_000


def compiled(regex: str) -> Any:
    """Return a compiled regular expression. INVALID_REGULAR_EXPRESSION if it is none of RE2's."""
    if len(regex) > MAX_REGEX_LENGTH:
        raise not_valid(regex, f"it is longer than {MAX_REGEX_LENGTH} characters")
    try:
        return expressions.compiled(regex)
    except expressions.BadExpression as error:
        raise not_valid(regex, str(error)) from None


def not_valid(regex: str, why: str) -> KafkaError:
    """Return what a member is told of its regular expression."""
    text = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}"
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)


def changed(draft: Draft, before: str | None) -> bool:
    """Take a new regular expression of the member. Return whether its topics change with it at once."""
    body, regex = draft.body, draft.said.subscribed_topic_regex
    if regex == before:
        return False
    if before is not None and body.regex_subscribers[before] <= 1 and before in body.regexes:
        draft.outcome.records.append(changes.resolved(draft.group.group_id, before, None))
    if regex is None or regex in body.regexes:
        return True
    if not body.regex_subscribers[regex]:
        compiled(regex)
    # The topics are not known yet; but those of the old expression are gone.
    return before is not None and before in body.regexes


def resolved(group: Group, event: RegexesResolved, outcome: Outcome, now_ms: int) -> None:
    """Keep the topics that were found. They are others than before: the group's epoch grows with the last of them."""
    body = group.consumer
    if body is None or body is not event.body:
        return
    found = {regex: each for regex, each in event.found.items() if body.regex_subscribers[regex]}
    outcome.records += [changes.resolved(group.group_id, regex, each) for regex, each in found.items()]
    if event.tried is None:
        return
    body.matched.update((regex, each) for regex, each in event.tried.items() if body.regex_subscribers[regex])
    topics = {regex: each.topics for regex, each in (body.regexes | found).items() if body.regex_subscribers[regex]}
    names = set(body.topic_subscribers).union(*topics.values())
    if event.changed:
        outcome.records += changes.epoch_bumped(group.group_id, body, metadata_hash(names, group.topics))


def unmatched(body: ConsumerGroup, changes_seen: tuple[int, int], now_ms: int, interval_ms: int) -> list[str]:
    """Return the regular expressions of a group that are to be matched: new ones, all after a change of topics or ACLs.

    As in Kafka all are matched again when that was `group.consumer.regex.refresh.interval.ms` ago.
    """
    found: list[str] = []
    for regex in body.regex_subscribers:
        last = body.matched.get(regex)
        if last is None or last.changes != changes_seen or now_ms - last.at_ms >= interval_ms:
            found.append(regex)
    return found


class Matching:
    """Which topics regular expressions of a group match: those that are new since they were matched last."""

    def __init__(self, body: ConsumerGroup, regexes: list[str], match: Match, now_ms: int) -> None:
        self._body = body
        self._match = match
        self._now_ms = now_ms
        # What each expression matched, and the topics that it has been tried with.
        self._before = {each: (body.regexes.get(each), body.matched.get(each)) for each in regexes}
        self._found: dict[str, Resolved] = {}
        self._changed = False
        # Expressions that are not valid and get no topics: a Kafka whose log this was may have taken them.
        self.refused: list[str] = []

    def work(self) -> None:
        """Match. Takes microseconds for each expression and topic."""
        for regex, (resolved, last) in self._before.items():
            tried = frozenset[str]() if resolved is None or last is None else last.names
            kept = self._match.names & resolved.topics if resolved is not None and tried else frozenset[str]()
            topics = kept | self._matched(regex, self._match.names - tried)
            if resolved is None or topics != resolved.topics:
                self._found[regex] = Resolved(topics, self._now_ms)
                self._changed |= bool(topics or resolved)

    def _matched(self, regex: str, names: frozenset[str]) -> frozenset[str]:
        try:
            pattern = compiled(regex)
        except KafkaError:
            self.refused.append(regex)
            return frozenset()
        return frozenset(name for name in names if pattern.fullmatch(name))

    def events(self) -> Iterator[RegexesResolved]:
        """Yield what was found, so much in each as one turn writes."""
        portion: dict[str, Resolved] = {}
        size = 0
        for regex, found in self._found.items():
            if portion and size + len(found.topics) > NAMES_PER_TURN:
                yield RegexesResolved(self._body, portion)
                portion, size = {}, 0
            portion[regex] = found
            size += len(found.topics)
        yield RegexesResolved(self._body, portion, dict.fromkeys(self._before, self._match), self._changed)


def unused_without(body: ConsumerGroup, member_ids: set[str]) -> list[str]:
    """Return the regular expressions that nobody uses once these members are gone."""
    left = body.regex_subscribers.copy()
    for member_id in member_ids:
        said = body.members[member_id].said
        if said is not None and said.subscribed_topic_regex:
            left[said.subscribed_topic_regex] -= 1
    return [regex for regex in body.regexes if left[regex] <= 0]


def left_by(group_id: str, body: ConsumerGroup, member_id: str) -> list[PartRecord]:
    """Return the tombstones of the regular expressions that a member leaves unused, if it is one."""
    unused = unused_without(body, {member_id}) if member_id in body.members else []
    return [changes.resolved(group_id, regex, None) for regex in unused]
