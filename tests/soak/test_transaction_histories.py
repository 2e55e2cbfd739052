"""Random transactions with kills on both sides, by seed: what they write is a sound history."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.brokers.process import broker_process
from odradek.tests.support.histories import planted_broker, txn_history
from odradek.tests.support.histories.history import check


@pytest.mark.parametrize("seed", range(200, 210))
def test_transactions_are_all_or_nothing(tmp_path: Path, seed: int) -> None:
    broker = broker_process(tmp_path, transaction_state_log_num_partitions=5, offsets_topic_num_partitions=5).start()
    try:
        history = txn_history.record(broker, tmp_path, seed, broker_kills=3, writer_kills=5)
    finally:
        broker.close()
    assert check(history) == []


@pytest.mark.parametrize("seed", range(300, 320))
def test_transactions_of_our_own_clients_are_all_or_nothing(tmp_path: Path, seed: int) -> None:
    broker = broker_process(tmp_path, transaction_state_log_num_partitions=5, offsets_topic_num_partitions=5).start()
    try:
        history = txn_history.record(broker, tmp_path, seed, broker_kills=3, writer_kills=5, client="odradek")
    finally:
        broker.close()
    assert check(history) == []


@pytest.mark.parametrize("bug", planted_broker.BUGS)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str) -> None:
    broker = planted_broker.PlantedBroker(
        bug, tmp_path, transaction_state_log_num_partitions=5, offsets_topic_num_partitions=5
    ).start()
    try:
        history = txn_history.record(broker, tmp_path, seed=3, broker_kills=0, writer_kills=0)
    finally:
        broker.close()
    assert ("dirty" if bug == "early" else bug) in {fault.kind for fault in check(history)}
