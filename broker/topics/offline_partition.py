"""A partition whose data directory was offline when the broker started: it has a place in its topic, but no log.

Whoever asks for its log gets KAFKA_STORAGE_ERROR, as does every client; Metadata shows it without a leader.
"""

from typing import NoReturn

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.errors import StorageError
from .partition import Partition


class OfflinePartition(Partition):
    """See the module's text."""

    def __init__(self, topic: str, index: int, leader_epoch: int) -> None:
        # Without what the parent makes from a log: there is none.
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
        self.rules = None
        self.high_watermark = 0
        self.failure = StorageError(f"the data directory of {topic}-{index} is offline")

    @property
    def log(self) -> NoReturn:  # type: ignore[override]
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
