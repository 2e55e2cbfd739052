"""Random transactions with kills on both sides write a history that is sound; with a bug planted it must not be."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.brokers.process import broker_process
from odradek.tests.support.histories import planted_broker, txn_history
from odradek.tests.support.histories.history import check
from odradek.tests.support.seeds import IS_SOAK, seeds

SETTINGS = {"transaction_state_log_num_partitions": 5, "offsets_topic_num_partitions": 5}
KILLS: dict[str, int] = {"broker_kills": 3, "writer_kills": 5} if IS_SOAK else {}


@pytest.mark.parametrize("seed", seeds([1], range(200, 210)))
def test_transactions_are_all_or_nothing_however_often_clients_and_broker_are_killed(tmp_path: Path, seed: int) -> None:
    broker = broker_process(tmp_path, **SETTINGS).start()
    try:
        history = txn_history.record(broker, tmp_path, seed, **KILLS)
    finally:
        broker.close()
    assert check(history) == []


# test_history_checker.py has them without a broker.
@pytest.mark.parametrize("bug", planted_broker.BUGS if IS_SOAK else ["half-visible"])
def test_a_planted_bug_is_found(tmp_path: Path, bug: str) -> None:
    broker = planted_broker.PlantedBroker(bug, tmp_path, **SETTINGS).start()
    try:
        history = txn_history.record(broker, tmp_path, seed=3, broker_kills=0, writer_kills=0)
    finally:
        broker.close()
    kind = "dirty" if bug == "early" else bug
    assert kind in {fault.kind for fault in check(history)}


@pytest.mark.parametrize("seed", seeds([1], range(300, 320)))
def test_transactions_of_our_own_clients_are_all_or_nothing(tmp_path: Path, seed: int) -> None:
    broker = broker_process(tmp_path, **SETTINGS).start()
    kills = KILLS or {"broker_kills": 1, "writer_kills": 2, "transactions": 10}
    try:
        history = txn_history.record(broker, tmp_path, seed, client="odradek", **kills)
    finally:
        broker.close()
    assert check(history) == []
