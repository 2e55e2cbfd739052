"""What asks other brokers of a cluster, on behalf of the coordinators and of share partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from ...protocol.messages.create_topics import CreatableTopic
from ...protocol.schema import Message
from ..configs.broker_config import BrokerConfig
from .inter_broker import InterBroker
from .metadata_cache import MetadataCache
from .remote_dead_letters import RemoteDeadLetters
from .remote_end_offsets import RemoteEndOffsets
from .remote_markers import RemoteMarkers
from .remote_share_states import RemoteShareStates
from .remote_verification import RemoteVerification


class Creation(Protocol):
    """What has the controller create topics."""

    def begin(self, name: str) -> bool: ...

    async def create(self, topic: CreatableTopic) -> None: ...


class Remote(NamedTuple):
    """One for each kind of question. End it with `close`."""

    view: MetadataCache
    inter_broker: InterBroker
    markers: RemoteMarkers
    verification: RemoteVerification
    share_states: RemoteShareStates
    end_offsets: RemoteEndOffsets
    dead_letters: RemoteDeadLetters

    @classmethod
    def make(
        cls,
        config: BrokerConfig,
        view: MetadataCache,
        transactions_of: Callable[[str], int],
        share_states_of: Callable[[str], int],
        creation: Callable[[], Creation] | None,
        ask_self: Callable[[Message, int], Awaitable[Message]],
    ) -> Remote:
        """`transactions_of` and `share_states_of` return the partition of a key in the topics of coordinators.

        `creation`: None where a test plays the controller.
        """
        inter_broker = InterBroker(config)
        parts = config, view, inter_broker

        def create(topic: str) -> None:
            if creation is not None:
                creation().begin(topic)

        return cls(
            view,
            inter_broker,
            RemoteMarkers(*parts),
            RemoteVerification(*parts, transactions_of),
            RemoteShareStates(*parts, share_states_of, create),
            RemoteEndOffsets(*parts),
            RemoteDeadLetters(*parts, ask_self, None if creation is None else lambda topic: creation().create(topic)),
        )

    def close(self) -> None:
        """Close the connections."""
        for each in (self.markers, self.verification, self.share_states, self.end_offsets, self.dead_letters):
            each.close()
