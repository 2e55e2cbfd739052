"""The events of the share coordinator's machine, and its answers. Plain values, no behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....protocol.errors import KafkaError
from .. import outcome
from ..outcome import AppendFailed, Loaded, Token, Unload
from .records import StateRecord
from .share_state import ShareState, StateBatch

# A state, None where a request asks for none, or why it is rejected.
Answer = ShareState | None | KafkaError


@dataclass(slots=True)
class Initialize:
    """InitializeShareGroupState: begin the state, or begin it again."""

    token: Token[Answer]
    state_epoch: int
    start_offset: int


@dataclass(slots=True)
class Read:
    """ReadShareGroupState: a leader begins to use the state."""

    token: Token[Answer]
    leader_epoch: int


@dataclass(slots=True)
class Write:
    """WriteShareGroupState: a leader changes the state."""

    token: Token[Answer]
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


@dataclass(slots=True)
class Summarize:
    """ReadShareGroupStateSummary."""

    token: Token[Answer]


@dataclass(slots=True)
class Delete:
    """DeleteShareGroupState."""

    token: Token[Answer]


@dataclass(slots=True)
class Forget:
    """The topic was deleted."""


@dataclass(slots=True)
class TakeSnapshot:
    """Write the state as a whole, so that what is older in the log can be deleted."""


Outcome = outcome.Outcome[StateRecord, Any]


Request = Initialize | Read | Write | Summarize | Delete
Event = Request | Forget | TakeSnapshot | Loaded | Unload | AppendFailed[Outcome]
