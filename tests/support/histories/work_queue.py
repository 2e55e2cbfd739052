"""A work queue whose workers are killed (-9) at random: `run` returns how it ended.

Each worker is a process of its own with `ShareConsumer.consume`, which writes down each job that it has done. Some jobs
are rejected, some fail at every try, some at the first one, and some last longer than their lock. In the end every job
was done or is dead, and each that is dead is in the topic of dead letters, with the cause that it must have.

    python -m odradek.tests.support.histories.work_queue JOBS KILLS SEED    # prints how it ended
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from odradek.client import Admin, ConfigResource, Consumer, NewTopic, Producer, ShareConsumer, TopicPartition
from odradek.tests.support.brokers.process import BrokerProcess

PARTITIONS = 4
DELIVERIES = 3
# Of a hundred jobs so many are rejected, fail always, fail once, and last longer than their lock.
REJECTED, FAILING, FLAKY, LONG = 2, 2, 10, 1
LOCK_MS, LONG_S = 1_000, 1.5
# How often the queue is looked at.
LOOK_S = 0.2
CONFIGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": str(DELIVERIES),
    "errors.deadletterqueue.topic.name": "dlq.jobs",
    "errors.deadletterqueue.copy.record.enable": "true",
    "share.record.lock.duration.ms": str(LOCK_MS),
}
# A worker that was killed has its partitions for the time of its session.
QUICK = {
    "group_share_min_record_lock_duration_ms": LOCK_MS,
    "group_share_min_heartbeat_interval_ms": 100,
    "group_share_heartbeat_interval_ms": 100,
    "group_share_min_session_timeout_ms": 3_000,
    "group_share_session_timeout_ms": 3_000,
}


class Ended(NamedTuple):
    """What became of all jobs."""

    done: int
    # By the second word of the cause: rejected, or delivery.
    dead: Counter[str]
    lost: set[int]
    kills: int
    seconds: float


def kind_of(job: int) -> str:
    """Return what happens to a job."""
    at = job % 100
    for kind, part in (("rejected", REJECTED), ("failing", FAILING), ("flaky", FLAKY), ("long", LONG)):
        if at < part:
            return kind
        at -= part
    return "fine"


async def work(address: str, path: Path) -> None:
    """Be a worker, until the process is killed."""
    with path.open("a", buffering=1) as file:
        async with ShareConsumer("jobs", group_id="workers", bootstrap_servers=address) as worker:

            async def handle(record: Any) -> None:
                kind = kind_of(int(record.value))
                if kind == "rejected":
                    worker.reject(record)
                elif kind == "failing" or (kind == "flaky" and record.delivery_count == 1):
                    raise RuntimeError(kind)
                else:
                    await asyncio.sleep(LONG_S if kind == "long" else 0)
                    file.write(f"{int(record.value)}\n")

            await worker.consume(handle, concurrency=50, retry_backoff_ms=1, retry_backoff_max_ms=10)


async def _prepare(address: str, jobs: int) -> None:
    async with Admin(address) as admin, Producer(address, linger_ms=5) as producer:
        flag = {"errors.deadletterqueue.group.enable": "true"}
        await admin.create_topics([NewTopic("jobs", PARTITIONS), NewTopic("dlq.jobs", 2, configs=flag)])
        await admin.alter_configs({ConfigResource.group("workers"): CONFIGS})
        for job in range(jobs):
            await producer.send("jobs", b"%d" % job, partition=job % PARTITIONS)


class _Workers:
    """Processes that are killed and started again."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        # Each with the file that it writes.
        self._processes: list[tuple[asyncio.subprocess.Process, Path]] = []
        self.paths: list[Path] = []

    async def start(self) -> None:
        path = self._folder / f"done-{len(self.paths)}"
        self.paths.append(path)
        command = sys.executable, "-W", "ignore", "-m", __spec__.name, "work", self._address, str(path)
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        self._processes.append((process, path))

    async def kill_one(self, chance: random.Random) -> bool:
        """Kill one that is at work; return whether there was any."""
        at_work = [each for each in self._processes if each[1].exists() and each[1].stat().st_size]
        if at_work:
            await self._kill(chance.choice(at_work))
        return bool(at_work)

    async def _kill(self, victim: tuple[asyncio.subprocess.Process, Path]) -> None:
        self._processes.remove(victim)
        with contextlib.suppress(ProcessLookupError):
            victim[0].kill()
        await victim[0].wait()

    def done(self) -> set[int]:
        """Return the jobs that are done. The last line of a worker that was killed may be cut off."""
        lines = [line for path in self.paths if path.exists() for line in path.read_text().splitlines(keepends=True)]
        return {int(line) for line in lines if line.endswith("\n")}

    async def close(self) -> None:
        for each in list(self._processes):
            await self._kill(each)


async def _run(
    broker: BrokerProcess, folder: Path, seed: int, jobs: int, planned: int, workers: int, within_s: float
) -> Ended:
    chance, kills, began_s = random.Random(seed), 0, time.monotonic()
    await _prepare(broker.address, jobs)
    crew = _Workers(broker.address, folder)
    try:
        for _ in range(workers):
            await crew.start()
        async with Admin(broker.address) as admin:
            while time.monotonic() < began_s + within_s:
                await asyncio.sleep(LOOK_S)
                lags = [each.lag for each in (await admin.list_share_group_offsets("workers")).values()]
                left = sum(jobs if lag is None else lag for lag in lags) if len(lags) == PARTITIONS else jobs
                if not left:
                    break
                # As far apart as the jobs that are done.
                is_due = kills < planned and jobs - left >= jobs * (kills + chance.random()) / (planned + 1)
                if is_due and await crew.kill_one(chance):
                    kills += 1
                    await crew.start()
    finally:
        await crew.close()
    rows = await _dead(broker.address)
    causes = Counter(cause.split()[1] for _, cause in rows)
    done, dead = crew.done(), {job for job, _ in rows}
    return Ended(len(done), causes, set(range(jobs)) - done - dead, kills, time.monotonic() - began_s)


async def _dead(address: str) -> set[tuple[int, str]]:
    """Return the jobs that are dead, each with its cause."""
    found: set[tuple[int, str]] = set()
    async with Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition("dlq.jobs", index) for index in range(2)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(each) < ends[each] for each in places]):
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for each in records:
                    found.add((int(each.value or b""), (dict(each.headers)["__dlq.errors.message"] or b"").decode()))
    return found


def run(folder: Path, seed: int, jobs: int, kills: int, *, workers: int = 4, within_s: float = 60) -> Ended:
    """Run one queue beside a broker of its own, and kill so many workers."""
    broker = BrokerProcess(folder, **QUICK).start()
    try:
        return asyncio.run(_run(broker, folder, seed, jobs, kills, workers, within_s))
    finally:
        broker.stop()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(work(sys.argv[2], Path(sys.argv[3])))
        os._exit(0)
    jobs, kills, seed = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), seed, jobs, kills, within_s=3_600))
