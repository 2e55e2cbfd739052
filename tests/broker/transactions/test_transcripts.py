"""Transactional ids by transcript: commands and what came of them, as text that can be read like a play.

A line that begins with `> ` is a command (stage.py explains them); the lines below it are what it must bring.
`ODRADEK_RENEW_TRANSCRIPTS=1` writes what it does bring, to be read in the diff.
"""

import os
from pathlib import Path

import pytest
from odradek.tests.broker.transactions.stage import Stage

FOLDER = Path(__file__).parents[2] / "transcripts" / "transactions"
RENEW = os.environ.get("ODRADEK_RENEW_TRANSCRIPTS") == "1"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    written = path.read_text()
    played = play(written)
    if RENEW:
        path.write_text(played)
    assert played == written or RENEW


def play(text: str) -> str:
    """The transcript with the outcome of each command as it is today; comments and empty lines stay."""
    stage = Stage()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines.extend(f"  {said}" for said in stage.run(line[2:]))
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"
