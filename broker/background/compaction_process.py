"""The process that compacts segments: storage/compaction/worker.py, which reads jobs and reports in JSON lines."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...storage.compaction.compaction import Job

# The longest line of a report: a group of segments is four numbers, an error names a file.
MAX_LINE_BYTES = 1 << 20


class CompactionFailed(Exception):
    """The process could not do a job; the text says why, and `may_pass` whether another try may succeed."""

    def __init__(self, why: str, *, may_pass: bool = False) -> None:
        self.may_pass = may_pass
        super().__init__(why)


class CompactionProcess:
    """The process starts with its first job."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._killed = False
        # True from the start of a job to its last report.
        self.is_working = False

    async def run(self, job: Job, bytes_per_second: float) -> AsyncIterator[dict[str, Any]]:
        """Yield the reports on a job, up to its last one. Raises CompactionFailed, OSError.

        After `kill` it raises CompactionFailed until `wait_ended` has returned.
        """
        from ...storage.compaction import worker

        if self._killed:
            raise CompactionFailed("the process that cleans was ended")
        if self._process is not None and self._process.returncode is not None:
            # The system has ended it between two jobs.
            await self.wait_ended()
        process = self._process or await self._start()
        assert process.stdin is not None and process.stdout is not None
        if self._killed:
            raise CompactionFailed("the process that cleans was ended")
        self.is_working = True
        process.stdin.write(worker.job_to_json(job, bytes_per_second).encode() + b"\n")
        await process.stdin.drain()
        while self.is_working:
            line = await process.stdout.readline()
            if not line:
                raise CompactionFailed("the process that cleans has ended")
            report: dict[str, Any] = json.loads(line)
            self.is_working = "group" in report
            if "error" in report:
                raise CompactionFailed(report["error"], may_pass=report["may_pass"])
            yield report

    async def _start(self) -> asyncio.subprocess.Process:
        from ...storage.compaction import worker

        # -P: a json.py in the folder where the broker was started is not Python's.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", worker.__name__, limit=MAX_LINE_BYTES,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        if self._killed:
            self.kill()
        return self._process

    def kill(self) -> None:
        """End the process at once; nothing that it holds is needed."""
        self._killed = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def wait_ended(self) -> None:
        """Return when the process has ended. The next job gets a new one."""
        if self._process is not None:
            await self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process = None
        self._killed = self.is_working = False
