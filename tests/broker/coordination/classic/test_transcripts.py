"""The transcripts of the group machine: stage.py has the commands, tests/support/brokers/transcript.py the form."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.broker.coordination.classic.stage import Stage
from odradek.tests.support.brokers.transcript import check, transcripts


@pytest.mark.parametrize("path", transcripts("groups"), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    check(path, Stage())
