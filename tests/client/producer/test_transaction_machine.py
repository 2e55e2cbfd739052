"""The machine of a transactional producer, by transcripts and by random walks over all that can be asked of it."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from odradek.client.errors import KafkaError
from odradek.client.producer.transaction_machine import LEGAL, TransactionState
from odradek.protocol.errors import ErrorCode
from odradek.tests.client.producer.transaction_stage import Stage
from odradek.tests.support.brokers.transcript import check, transcripts


@pytest.mark.parametrize("path", transcripts("producer"), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    check(path, Stage())


CALLS = ["begin", "commit", "abort", "settled", "write t-0", "write t-1", "offsets g", "offsets h"]
CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]
TELLING = [
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.PRODUCER_FENCED,
]
EPOCHS = "ok id=7 epoch={epoch} version={version}"


def answer(chance: random.Random, epoch: int) -> str:
    """A command that answers the request under way."""
    kind = chance.random()
    if kind < 0.6:
        return EPOCHS.format(epoch=epoch, version=chance.choice([1, 2]))
    return "lost" if kind < 0.75 else f"error {chance.choice(TELLING).name}"


def seen_by_walk(seed: int) -> set[tuple[TransactionState, TransactionState]]:
    """The moves of a random walk. An illegal one raises AssertionError."""
    chance, stage = random.Random(seed), Stage()
    stage.run("init")
    moves: set[tuple[TransactionState, TransactionState]] = set()
    for step in range(60):
        before = stage.machine.state
        if stage.action is not None and chance.random() < 0.6:
            stage.run(answer(chance, step))
        elif chance.random() < 0.2:
            stage.run(f"batch {chance.choice(TELLING).name} lost")
        else:
            stage.run(chance.choice(CALLS))
        if stage.machine.state is not before:
            moves.add((before, stage.machine.state))
        if before is stage.machine.state is TransactionState.FATAL_ERROR:
            assert stage.machine.next_action() is None, "nothing is asked after a fatal error"
    return moves


def test_random_walks_make_legal_moves_only_and_every_one_of_them() -> None:
    seen = {(TransactionState.UNINITIALIZED, TransactionState.INITIALIZING)}
    for seed in range(800):
        seen |= seen_by_walk(seed)
    listed = {(source, target) for source, targets in LEGAL.items() for target in targets}
    # One call can make two moves: an empty transaction ends at once.
    assert listed - seen == set()


def test_each_error_of_each_request_leads_to_a_state_that_says_what_is_left() -> None:
    requests = ("write t-0", "offsets g", "offsets g+ok", "end commit", "end abort")
    for code, version, request in product(CODES, (1, 2), requests):
        stage = Stage()
        for command in ("init", f"ok id=7 epoch=0 version={version}", "begin"):
            stage.run(command)
        asked = bring_to(stage, request)
        if not asked or stage.action is None:
            continue
        stage.run(f"error {code.name}")
        state = stage.machine.state
        if code.retriable:
            assert stage.action is not None, f"{request} is not asked again after {code.name}"
        else:
            assert state in (TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR), (code, version, request)
            with pytest.raises(KafkaError) as caught:
                stage.machine.check_open()
            assert not caught.value.retriable, (code, version, request)


def bring_to(stage: Stage, request: str) -> bool:
    """Have the stage ask for a request; False where its version does not."""
    if request.startswith("end"):
        stage.run("offsets g")
        while stage.action is not None:
            stage.run("ok")
        stage.run(request.split()[1])
        stage.run("settled")
        return True
    stage.run(request.removesuffix("+ok"))
    if request.endswith("+ok"):
        stage.run("ok")
    return stage.action is not None
