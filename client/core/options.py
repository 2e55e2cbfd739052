"""The options that all clients share: how to reach a cluster, how long to wait and when to retry."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..errors import InvalidOption
from .addresses import bootstrap_addresses
from .option_values import check_numbers, check_switches, check_texts
from .security_options import PLAINTEXT, SecurityOptions


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Kafka's options of the same names, in milliseconds. Raises InvalidOption."""

    bootstrap_servers: str | Sequence[str]
    client_id: str = "odradek"
    request_timeout_ms: float = 30_000
    connect_timeout_ms: float = 10_000
    retry_backoff_ms: float = 100
    retry_backoff_max_ms: float = 1_000
    metadata_max_age_ms: float = 300_000
    # How long a call may wait in all, retries included (Kafka's default.api.timeout.ms and max.block.ms).
    default_api_timeout_ms: float = 60_000
    allow_auto_create_topics: bool = True
    security: SecurityOptions = PLAINTEXT

    def __post_init__(self) -> None:
        bootstrap_addresses(self.bootstrap_servers)
        check_texts(client_id=self.client_id)
        check_switches(allow_auto_create_topics=self.allow_auto_create_topics)
        check_numbers(
            request_timeout_ms=self.request_timeout_ms,
            connect_timeout_ms=self.connect_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            metadata_max_age_ms=self.metadata_max_age_ms,
            default_api_timeout_ms=self.default_api_timeout_ms,
        )


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise InvalidOption unless `value` is one of `choices`."""
    if value not in choices:
        raise InvalidOption(f"{name} must be one of {', '.join(choices)}, not {value!r}")
