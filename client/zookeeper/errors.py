"""The errors of a consumer that rebalances through ZooKeeper."""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError


class ZooKeeperUnreachable(KafkaError):
    """No ZooKeeper answers, or it cannot be used. Retriable: it may be starting."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class SessionExpired(KafkaError):
    """The session with ZooKeeper has ended: this consumer owns nothing any more, and nothing was written."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_MEMBER_ID,
            "the session with ZooKeeper has expired: other consumers of the group have the partitions now",
        )


class RebalanceFailed(KafkaError):
    """The consumer got no partitions in `rebalance_max_retries` attempts. It tries again by itself."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REBALANCE_IN_PROGRESS, message)
