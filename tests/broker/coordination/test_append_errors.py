"""What clients are told when a coordinator's records cannot be appended."""

from __future__ import annotations

import pytest
from odradek.broker.coordination.machine import append_error
from odradek.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("from_log", "to_client"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_clients_are_told_an_error_of_a_coordinator(from_log: ErrorCode, to_client: ErrorCode) -> None:
    assert append_error(from_log) is to_client
