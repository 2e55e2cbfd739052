"""Random transactions with kills on both sides, by seed: what they write is a sound history."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support import txn_history
from odradek.tests.support.history import check
from odradek.tests.support.process import broker_process


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
