"""Compacted topics by other people's clients: a real process cleans while they write, and each of them reads the same.

What is waited for is what a reader sees: the cleaner has its own time. With ODRADEK_TEST_REAL_KAFKA=1 the same holds of
a real Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.tests.support.brokers.process import broker_process
from odradek.tests.support.clients.keyed import (
    KEYED_CLIENTS,
    ROLL,
    Kept,
    Pair,
    Round,
    compacted,
    last_of,
    read_to_end,
    seen,
    until_cleaned,
    write,
)

INVALID_RECORD = 87


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose cleaner looks around all the time."""
    process = broker_process(tmp_path_factory.mktemp("broker"), log_cleaner_backoff_ms=50).start()
    yield process.address
    process.close()


@pytest.mark.parametrize("client", KEYED_CLIENTS)
def test_the_last_value_of_each_key_stays_at_its_offset(address: str, client: str) -> None:
    topic = compacted(address, f"last-{client}")
    pairs: list[Pair] = [(b"k%d" % (number % 7), b"%d" % number * 20) for number in range(40)]
    pairs += [(b"k1", None), (b"k2", None), (b"k2", b"again")]
    offsets = write(client, address, topic, [Round("plain", pairs)])
    assert offsets == list(range(len(pairs)))
    write(client, address, topic, [ROLL])
    expected = last_of(pairs, offsets)
    assert [each.value for each in expected if each.key == b"k1"] == [None]
    until_cleaned(address, topic, expected)
    for reader in KEYED_CLIENTS:
        assert seen(reader, address, topic) == expected, reader
    # What goes on gets the offset that it would have had without a cleaner.
    assert write(client, address, topic, [Round("plain", [(b"k1", b"later")])]) == [len(pairs) + len(ROLL.pairs)]


@pytest.mark.parametrize("client", KEYED_CLIENTS)
def test_tombstones_go_once_their_time_is_over(address: str, client: str) -> None:
    topic = compacted(address, f"tombstones-{client}", delete_retention_ms="0")
    pairs: list[Pair] = [(b"a", b"1"), (b"b", b"1"), (b"a", None)]
    write(client, address, topic, [Round("plain", pairs)])
    # The first cleaning sets their time, a later one takes them: there must be something to be cleaned.
    until_cleaned(address, topic, [Kept(1, b"b", b"1")], lambda: write(client, address, topic, [ROLL]))
    for reader in KEYED_CLIENTS:
        assert seen(reader, address, topic) == [Kept(1, b"b", b"1")], reader


@pytest.mark.parametrize("client", KEYED_CLIENTS)
def test_a_record_without_a_key_is_rejected(address: str, client: str) -> None:
    topic = compacted(address, f"keyless-{client}")
    with pytest.raises(Exception) as refused:
        write(client, address, topic, [Round("plain", [(None, b"value")])])
    # aiokafka has no name for it.
    assert code_of(refused.value) == (-1 if client == "aiokafka" else INVALID_RECORD), refused.value
    assert read_to_end(client, address, topic) == []


def code_of(error: Exception) -> int | None:
    """Kafka's number of an error, as each client keeps it."""
    inner = error.args[0] if error.args else None
    return inner.code() if hasattr(inner, "code") else getattr(error, "errno", None)


@pytest.mark.parametrize("client", KEYED_CLIENTS)
def test_committed_records_stay_and_aborted_ones_are_removed(address: str, client: str) -> None:
    topic = compacted(address, f"transactions-{client}")
    rounds = [
        Round("commit", [(b"a", b"1"), (b"b", b"1")]),
        Round("abort", [(b"a", b"2"), (b"c", b"2")]),
        Round("commit", [(b"b", b"3"), (b"d", b"3")]),
        Round("abort", [(b"d", None), (b"a", None)]),
    ]
    offsets = write(client, address, topic, rounds)
    kept = last_of([(b"a", b"1"), (b"b", b"3"), (b"d", b"3")], [offsets[0], offsets[4], offsets[5]])
    write(client, address, topic, [ROLL])
    # Before and after: who reads what is committed never sees anything else of a key in the end.
    for reader in KEYED_CLIENTS:
        assert {each.key: each for each in seen(reader, address, topic, "read_committed")} == {k.key: k for k in kept}
    until_cleaned(address, topic, kept)
    for reader in KEYED_CLIENTS:
        assert seen(reader, address, topic, "read_committed") == kept, reader


def test_a_key_that_is_deleted_after_an_abort_does_not_come_back(address: str) -> None:
    client = "confluent-kafka"
    topic = compacted(address, "abort-and-delete", delete_retention_ms="0")
    write(client, address, topic, [Round("commit", [(b"k", b"1")]), Round("abort", [(b"a", b"1")])])
    write(client, address, topic, [ROLL])
    until_cleaned(address, topic, [Kept(0, b"k", b"1")])
    write(client, address, topic, [Round("commit", [(b"k", None)])])
    until_cleaned(address, topic, [], lambda: write(client, address, topic, [ROLL]))
    assert seen(client, address, topic, "read_committed") == []
