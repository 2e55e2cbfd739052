"""Writes the pictures of states into docs/groups.md and docs/transactions.md, as Mermaid's diagrams.

    python tools/state_pictures.py

The moves come from the tables LEGAL in `states.py` of broker/coordination/groups and transactions; this file adds the
words. A move without words is an error, and so are words without a move: the picture shows what the machine does. A
test compares the pages with what this writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from odradek.broker.coordination.groups import states as groups
from odradek.broker.coordination.groups.states import GroupState as G
from odradek.broker.coordination.transactions import states as transactions
from odradek.broker.coordination.transactions.states import TransactionState as T

DOCS = Path(__file__).parents[1] / "docs"
_PICTURE = re.compile(r"<!-- states -->.*?<!-- /states -->", re.DOTALL)


@dataclass(frozen=True)
class Picture:
    page: str
    legal: Mapping[Enum, frozenset[Enum]]
    words: Mapping[tuple[Enum, Enum], str]
    # States that no record says: a restart finds none of them.
    in_memory: frozenset[Enum]

    def text(self) -> str:
        """Return the part of the page. Raises SystemExit unless each move has its words, and each word its move."""
        moves = {(source, target) for source, targets in self.legal.items() for target in targets}
        if moves != self.words.keys():
            raise SystemExit(f"{self.page}: no words {moves - self.words.keys()}, no move {self.words.keys() - moves}")
        lines = ["<!-- states -->", "```mermaid", "stateDiagram-v2", "    classDef memory stroke-dasharray: 5 3"]
        lines += [f"    {source.value} --> {to.value} : {words}" for (source, to), words in self.words.items()]
        lines += [f"    class {state.value} memory" for state in self.legal if state in self.in_memory]
        return "\n".join([*lines, "```", "<!-- /states -->"])

    def apply(self, page: str) -> str:
        """Return the page with this picture in its place."""
        return _PICTURE.sub(lambda _: self.text(), page)


_IDLE = (T.EMPTY, T.COMPLETE_COMMIT, T.COMPLETE_ABORT)
PICTURES = (
    Picture(
        "transactions.md",
        transactions.LEGAL,
        {(state, T.ONGOING): "partitions added" for state in _IDLE}
        | {(state, T.PREPARE_ABORT): "EndTxn, abort of nothing" for state in _IDLE}
        | {(state, T.DEAD): "expired" for state in _IDLE}
        | {(state, T.EMPTY): "InitProducerId" for state in _IDLE}
        | {
            (T.ONGOING, T.ONGOING): "partitions added",
            (T.ONGOING, T.PREPARE_COMMIT): "EndTxn, commit",
            (T.ONGOING, T.PREPARE_ABORT): "EndTxn, abort",
            (T.ONGOING, T.PREPARE_EPOCH_FENCE): "time-out, new owner",
            (T.PREPARE_EPOCH_FENCE, T.ONGOING): "record not written",
            (T.PREPARE_EPOCH_FENCE, T.PREPARE_ABORT): "record written",
            (T.PREPARE_COMMIT, T.COMPLETE_COMMIT): "every marker is written",
            (T.PREPARE_ABORT, T.COMPLETE_ABORT): "every marker is written",
        },
        frozenset({T.PREPARE_EPOCH_FENCE}),
    ),
    Picture(
        "groups.md",
        groups.LEGAL,
        {
            (G.EMPTY, G.PREPARING_REBALANCE): "join",
            (G.PREPARING_REBALANCE, G.EMPTY): "nobody is left",
            (G.PREPARING_REBALANCE, G.COMPLETING_REBALANCE): "all came, or time is up",
            (G.COMPLETING_REBALANCE, G.PREPARING_REBALANCE): "membership changed",
            (G.COMPLETING_REBALANCE, G.STABLE): "assignment written",
            (G.STABLE, G.PREPARING_REBALANCE): "join, leave, expiry, new metadata",
            (G.EMPTY, G.STABLE): "only in a replay",
            (G.STABLE, G.EMPTY): "only in a replay",
            (G.EMPTY, G.DEAD): "deleted, or offsets expired",
            (G.PREPARING_REBALANCE, G.DEAD): "moved away",
            (G.COMPLETING_REBALANCE, G.DEAD): "moved away",
            (G.STABLE, G.DEAD): "moved away",
        },
        frozenset({G.PREPARING_REBALANCE, G.COMPLETING_REBALANCE}),
    ),
)


def main() -> None:
    for picture in PICTURES:
        page = DOCS / picture.page
        page.write_text(picture.apply(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
