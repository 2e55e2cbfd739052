"""The table of error codes is Kafka's, and an exception carries its code to the code that answers."""

from __future__ import annotations

from pathlib import Path

from odradek.protocol.errors import DecodeError, EncodeError, ErrorCode, KafkaError, ProtocolError, TruncatedMessage

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.4.0" / "errors.tsv"


def test_codes_names_and_what_is_retriable_are_kafkas() -> None:
    _, *rows = (line.split("\t") for line in GOLDEN.read_text().splitlines())
    kafka = [(int(code), name, retriable == "true") for code, name, retriable in rows]
    assert [(int(code), code.name, code.retriable) for code in ErrorCode] == kafka


def test_every_code_says_what_it_means() -> None:
    assert all(code.text.endswith(".") for code in ErrorCode)
    assert len({code.text for code in ErrorCode}) == len(ErrorCode)


def test_a_code_is_a_number() -> None:
    assert ErrorCode.NOT_COORDINATOR == 16
    assert ErrorCode(16) is ErrorCode.NOT_COORDINATOR


def test_a_code_that_is_not_known_yet_is_an_unknown_error() -> None:
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_carries_its_code_and_says_why() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms: -2 is below -1")
    assert (error.code, error.retriable) == (40, False)
    assert str(error) == "INVALID_CONFIG: retention.ms: -2 is below -1"
    assert KafkaError(ErrorCode.NOT_COORDINATOR).message == ErrorCode.NOT_COORDINATOR.text


def test_the_codec_has_one_tree_of_errors() -> None:
    assert issubclass(TruncatedMessage, DecodeError)
    assert issubclass(DecodeError, ProtocolError) and issubclass(EncodeError, ProtocolError)
