"""The process that compacts: a job after its end, by a kill or by the system."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from odradek.broker.background import compaction_process
from odradek.broker.background.compaction_process import CompactionFailed, CompactionProcess
from odradek.storage.compaction.compaction import Job

NO_JOB = Job(Path("nowhere"), (), 0, 0, 0, 1000, 1000, 100, 1000)


async def work(process: CompactionProcess) -> str:
    """Return how a job that finds nothing ends."""
    try:
        return str([each async for each in process.run(NO_JOB, 1e9)])
    except CompactionFailed as error:
        return str(error)


@pytest.fixture
async def started(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """Return the processes that are started from now on."""
    found: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*arguments: object, **options: object) -> asyncio.subprocess.Process:
        found.append(await start(*arguments, **options))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(compaction_process.asyncio, "create_subprocess_exec", noted)
    return found


@pytest.mark.parametrize("by_the_system", [False, True])
async def test_a_process_that_has_ended_between_two_jobs_is_replaced(
    started: list[asyncio.subprocess.Process], by_the_system: bool
) -> None:
    process = CompactionProcess()
    first = await work(process)
    if by_the_system:
        os.kill(started[0].pid, signal.SIGKILL)
        await started[0].wait()
    else:
        process.kill()
        await started[0].wait()
        await asyncio.sleep(0)
        assert await work(process) == "the process that cleans was ended"
        await process.wait_ended()
    assert await work(process) == first and len(started) == 2
    process.kill()
    await process.wait_ended()


async def test_a_module_in_the_folder_of_the_program_is_not_taken_for_one_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    process = CompactionProcess()
    expected = await work(process)
    process.kill()
    await process.wait_ended()
    (tmp_path / "json.py").write_text("raise SystemExit('this is the file of somebody else')")
    assert await work(process) == expected
    process.kill()
    await process.wait_ended()
