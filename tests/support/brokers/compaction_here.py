"""Compaction in a thread of the test's process: for tests of what the broker does with it, and not of the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any

import pytest
from odradek.broker.background.compaction_process import CompactionFailed, CompactionProcess
from odradek.storage.compaction import worker
from odradek.storage.compaction.compaction import Job


async def _run(self: CompactionProcess, job: Job, bytes_per_second: float) -> AsyncIterator[dict[str, Any]]:
    out = StringIO()
    await asyncio.to_thread(worker.run, worker.job_to_json(job, bytes_per_second), out)
    for report in map(json.loads, out.getvalue().splitlines()):
        if "error" in report:
            raise CompactionFailed(report["error"], may_pass=report["may_pass"])
        yield report


def compact_here(patch: pytest.MonkeyPatch) -> None:
    """Start no process for jobs of the cleaner."""
    patch.setattr(CompactionProcess, "run", _run)
