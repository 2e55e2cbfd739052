"""A heartbeat under way, between what the log has and what the records of its outcome will make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ....protocol.errors import KafkaError
from ..groups.events import Outcome, Token
from ..groups.group import Group
from .events import Rejection

BodyT = TypeVar("BodyT")
EventT = TypeVar("EventT")
MemberT = TypeVar("MemberT")
SaidT = TypeVar("SaidT")


@dataclass(slots=True)
class Draft(Generic[BodyT, EventT, MemberT, SaidT]):
    """What holds once the records of the outcome are applied."""

    group: Group
    body: BodyT
    event: EventT
    outcome: Outcome
    now_ms: int
    # The member, as the log has it or as it begins.
    member: MemberT
    said: SaidT
    # The group's epoch.
    epoch: int
    subscription_changed: bool = False


def reject(token: Token[Any], outcome: Outcome, error: KafkaError) -> None:
    """Answer with a Rejection. It changes nothing."""
    outcome.records.clear()
    outcome.timers.clear()
    outcome.reply(token, Rejection(error.code, error.message))
