"""The options of a producer: what goes together, and how they are on the wire."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.records.compression import Compression
from ..core.option_table import MAX_IDEMPOTENT_IN_FLIGHT
from ..errors import InvalidOption

_ACKS = {0: 0, 1: 1, -1: -1, "0": 0, "1": 1, "-1": -1, "all": -1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """Kafka's options of the same names. Raises InvalidOption."""

    acks: int | str
    linger_ms: float
    batch_size: int
    compression_type: str
    enable_idempotence: bool
    max_request_size: int
    max_in_flight_requests_per_connection: int
    buffer_memory: int
    delivery_timeout_ms: float
    max_block_ms: float
    request_timeout_ms: float
    transactional_id: str | None
    transaction_timeout_ms: int

    @property
    def wire_acks(self) -> int:
        """The acks of a Produce request: -1 for "all"."""
        return _ACKS[self.acks]

    @property
    def compression(self) -> Compression:
        """The codec of batches."""
        return Compression[self.compression_type.upper()]

    def __post_init__(self) -> None:
        self._check_idempotence()
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise InvalidOption(
                f"delivery_timeout_ms ({self.delivery_timeout_ms:g}) must not be below linger_ms + request_timeout_ms "
                f"({self.linger_ms + self.request_timeout_ms:g})"
            )

    def _check_idempotence(self) -> None:
        too_many = self.max_in_flight_requests_per_connection > MAX_IDEMPOTENT_IN_FLIGHT
        if self.enable_idempotence and (self.wire_acks != -1 or too_many):
            raise InvalidOption(
                'enable_idempotence needs acks="all" and at most 5 max_in_flight_requests_per_connection: '
                "change those, or say enable_idempotence=False"
            )
        if self.transactional_id is not None and not (self.transactional_id and self.enable_idempotence):
            raise InvalidOption("transactional_id needs enable_idempotence=True, and must not be empty")
