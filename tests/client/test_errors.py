"""The errors that the client finds: their codes are those of Kafka's own clients, and say whether a retry may help."""

from __future__ import annotations

import pytest
from odradek.client import errors
from odradek.client.errors import ClientError, ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("kind", "code", "retriable"),
    [
        (errors.ConnectionLost, ErrorCode.NETWORK_EXCEPTION, True),
        (errors.BadResponse, ErrorCode.NETWORK_EXCEPTION, True),
        (errors.RequestTimedOut, ErrorCode.REQUEST_TIMED_OUT, True),
        (errors.BufferFull, ErrorCode.REQUEST_TIMED_OUT, True),
        # The client has waited for the topic already, so the code's own word does not hold.
        (errors.UnknownTopic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (errors.AuthenticationFailed, ErrorCode.SASL_AUTHENTICATION_FAILED, False),
        (errors.InvalidOption, ErrorCode.INVALID_CONFIG, False),
        (errors.DeliveryStopped, ErrorCode.INVALID_REQUEST, False),
        (errors.DeliveryTimedOut, ErrorCode.REQUEST_TIMED_OUT, True),
        (errors.ProducerFenced, ErrorCode.PRODUCER_FENCED, False),
    ],
)
def test_each_error_of_the_client_has_its_code(kind: type[KafkaError], code: ErrorCode, retriable: bool) -> None:
    error = kind("why")  # type: ignore[arg-type, call-arg]
    assert (error.code, error.retriable, error.message) == (code, retriable, "why")


def test_a_kind_below_another_has_its_code_unless_it_says_one() -> None:
    class Upper(ClientError, code=ErrorCode.NETWORK_EXCEPTION, retriable=False):
        """One kind."""

    class Same(Upper):
        """A kind that says nothing."""

    class Other(Upper, code=ErrorCode.INVALID_REQUEST):
        """A kind with a code of its own."""

    assert (Same("").code, Other("").code) == (ErrorCode.NETWORK_EXCEPTION, ErrorCode.INVALID_REQUEST)
    assert not Same("").retriable and not Other("").retriable


def test_an_error_of_a_response_names_what_failed() -> None:
    assert errors.error_of(0, None, "a fetch") is None
    with pytest.raises(KafkaError, match="a fetch: no leader"):
        errors.raise_error(ErrorCode.LEADER_NOT_AVAILABLE, "no leader", "a fetch")
