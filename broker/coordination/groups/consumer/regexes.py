"""Regular expressions of a consumer group: which topics they match is found beside the machine, and kept in the log."""

from __future__ import annotations

from typing import Any

from .....protocol.errors import ErrorCode, KafkaError
from ... import expressions
from ..events import Outcome
from ..group import Group
from ..modern.target import metadata_hash
from . import changes
from .draft import Draft
from .events import RegexesResolved
from .state import ConsumerGroup, Resolved

# Kafka has no bound. Java's and librdkafka's users write some dozen characters.
MAX_REGEX_LENGTH = 4096
# Memory of one compiled expression, which bounds the time to compile it too.
_MAX_MEMORY_BYTES = 1 << 20


def compiled(regex: str) -> Any:
    """Return a compiled regular expression. INVALID_REGULAR_EXPRESSION if it is none of RE2's."""
    if len(regex) > MAX_REGEX_LENGTH:
        raise not_valid(regex, f"it is longer than {MAX_REGEX_LENGTH} characters")
    try:
        return expressions.compiled(regex, _MAX_MEMORY_BYTES)
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
    """Keep the topics that were found, and raise the group's epoch where they are others than before."""
    body = group.consumer
    if body is None:
        return
    used = {regex: found for regex, found in event.found.items() if body.regex_subscribers[regex]}
    before = body.subscribed_topics()
    other = set(body.topic_subscribers)
    for regex in body.regex_subscribers:
        found = used.get(regex) or body.regexes.get(regex)
        other |= found.topics if found is not None else set()
    news = {regex: found for regex, found in used.items() if body.regexes.get(regex) != found}
    outcome.records += [changes.resolved(group.group_id, regex, found) for regex, found in news.items()]
    is_other = any(regex not in body.regexes or body.regexes[regex].topics != news[regex].topics for regex in news)
    if other != before or is_other:
        outcome.records += changes.epoch_bumped(group.group_id, body, metadata_hash(other, group.topics))


def unmatched(body: ConsumerGroup, changes_of_topics: int) -> list[str]:
    """Return the regular expressions of a group whose topics are not known, or not since the last change of topics."""
    regexes = body.regex_subscribers
    return [each for each in regexes if each not in body.regexes or body.regexes[each].version != changes_of_topics]


def match(
    regexes: list[str], names: list[str], changes_of_topics: int, now_ms: int, refused: set[str]
) -> dict[str, Resolved]:
    """Return the topics whose whole name each regular expression matches. Takes microseconds for each topic.

    One that is not valid gets none, and is added to `refused`: a Kafka whose log this was may have taken it.
    """
    found: dict[str, Resolved] = {}
    for regex in regexes:
        topics = frozenset[str]()
        try:
            pattern = compiled(regex)
            topics = frozenset(name for name in names if pattern.fullmatch(name))
        except KafkaError:
            refused.add(regex)
        found[regex] = Resolved(topics, changes_of_topics, now_ms)
    return found


def unused_without(body: ConsumerGroup, member_ids: set[str]) -> list[str]:
    """Return the regular expressions that nobody uses once these members are gone."""
    left = body.regex_subscribers.copy()
    for member_id in member_ids:
        said = body.members[member_id].said
        if said is not None and said.subscribed_topic_regex:
            left[said.subscribed_topic_regex] -= 1
    return [regex for regex in body.regexes if left[regex] <= 0]
