"""The session with a real ZooKeeper: steps, watches, the fence, lost connections and expired sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kazoo.exceptions import WriterNotClosedException
from odradek.broker.cluster.controller.candidacy import Won, is_elected, stand
from odradek.broker.cluster.registration import join_cluster, register, take_broker_id
from odradek.broker.cluster.znodes import CONTROLLER, CONTROLLER_EPOCH, PERSISTENT, Registration
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess, why_missing, zookeeper
from odradek.zookeeper.operations import (
    Check,
    Create,
    Delete,
    Dropped,
    Fenced,
    Put,
    SessionExpired,
    children,
    read,
    write,
    write_all,
)
from odradek.zookeeper.session import Contact, Session, ZooKeeperUnreachable

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing())

BROKER = Registration(1, ("PLAINTEXT://127.0.0.1:9092",), {"PLAINTEXT": "PLAINTEXT"}, "r1", 1000)


class Noted:
    """A session that notes what it is told."""

    def __init__(self, connect: str, session_timeout_ms: int) -> None:
        self.changes: asyncio.Queue[str] = asyncio.Queue()
        self.contacts: asyncio.Queue[Contact] = asyncio.Queue()
        self.zookeeper = Session(connect, session_timeout_ms, 10_000, self.changes.put_nowait, self.contacts.put_nowait)


@asynccontextmanager
async def session(ensemble: ZooKeeperProcess, name: str, session_timeout_ms: int = 6000) -> AsyncIterator[Noted]:
    # Each test runs on several event loops, and each run has a tree of its own.
    made = Noted(f"{ensemble.address}/{name}/{id(asyncio.get_running_loop())}", session_timeout_ms)
    await made.zookeeper.start(PERSISTENT)
    try:
        yield made
    finally:
        await made.zookeeper.stop()


def contacts_of(made: Noted) -> list[Contact]:
    return [made.contacts.get_nowait() for _ in range(made.contacts.qsize())]


async def told(made: Noted, wanted: Contact) -> None:
    """Wait until the owner of a session is told this."""
    while await made.contacts.get() is not wanted:
        pass


async def test_a_nested_chroot_and_the_znodes_of_a_cluster_are_made(ensemble: ZooKeeperProcess) -> None:
    async with session(ensemble, "chroot") as made:
        for path in PERSISTENT:
            assert await made.zookeeper.run(read(path)) is not None
        assert await made.zookeeper.run(children("/brokers")) == ["ids", "seqid", "topics"]


async def test_writes_are_all_or_nothing(ensemble: ZooKeeperProcess) -> None:
    async with session(ensemble, "writes") as made:
        run = made.zookeeper.run
        assert await run(write(Create("/a", b"1"), Create("/a/b", b"2"))) is None
        failure = await run(write(Put("/a", b"3", 0), Create("/a/b")))
        assert failure is not None and failure.exists and failure.path == "/a/b"
        znode = await run(read("/a"))
        assert znode is not None and (znode.data, znode.version) == (b"1", 0)
        failures = await run(write_all([(Put("/a", b"3", 7),), (Put("/x", b""),), (Delete("/a"),), (Put("/a", b"4"),)]))
        flags = [each and (each.bad_version, each.missing, each.has_children) for each in failures]
        assert flags == [(True, False, False), (False, True, False), (False, False, True), None]


async def test_a_watch_tells_of_one_change(ensemble: ZooKeeperProcess) -> None:
    async with session(ensemble, "watches") as made:
        run = made.zookeeper.run
        assert await run(read("/late", watch=True)) is None
        await run(write(Create("/late")))
        assert await made.changes.get() == "/late"
        await run(children("/late", watch=True))
        await run(write(Create("/late/child")))
        assert await made.changes.get() == "/late"
        await run(write(Create("/late/second")))
        assert made.changes.empty()


async def test_a_watch_outlives_a_lost_connection(ensemble: ZooKeeperProcess) -> None:
    async with session(ensemble, "cut", 30_000) as made:
        run = made.zookeeper.run
        await run(write(Create("/parent")))
        await run(children("/parent", watch=True))
        await run(read("/content", watch=True))
        await asyncio.to_thread(ensemble.kill)
        await asyncio.to_thread(ensemble.start)
        async with asyncio.timeout(60):
            # There may have been a change meanwhile: a receiver looks again.
            assert [await made.changes.get() for _ in range(2)] == ["/content", "/parent"]
            await run(children("/parent", watch=True))
            await run(write(Create("/parent/child")))
            assert await made.changes.get() == "/parent"
        assert Contact.EXPIRED not in contacts_of(made)


async def test_one_broker_is_the_controller_and_an_old_one_cannot_write(ensemble: ZooKeeperProcess) -> None:
    async with session(ensemble, "election") as first, session(ensemble, "election") as second:
        won = await first.zookeeper.run(stand(1, 0))
        assert won == Won(epoch=1, fence=1)
        assert await second.zookeeper.run(stand(2, 0)) is None
        assert await first.zookeeper.run(write(Create("/mine")), Check(CONTROLLER_EPOCH, won.fence)) is None
        assert await second.zookeeper.run(write(Delete(CONTROLLER))) is None
        assert await second.changes.get() == CONTROLLER
        newer = await second.zookeeper.run(stand(2, 0))
        assert newer == Won(epoch=2, fence=2)
        assert not await first.zookeeper.run(is_elected(1, 1))
        with pytest.raises(Fenced):
            await first.zookeeper.run(write(Put("/mine", b"old")), Check(CONTROLLER_EPOCH, won.fence))
        mine = await second.zookeeper.run(read("/mine"))
        assert mine is not None and mine.data == b""


async def test_a_broker_id_belongs_to_one_session(ensemble: ZooKeeperProcess) -> None:
    async with session(ensemble, "ids") as first, session(ensemble, "ids") as second:
        mine = await first.zookeeper.run(register(BROKER, first.zookeeper.session_id))
        assert isinstance(mine, int) and mine > 0
        assert await first.zookeeper.run(register(BROKER, first.zookeeper.session_id)) == mine
        other = await second.zookeeper.run(register(BROKER, second.zookeeper.session_id))
        assert isinstance(other, Registration) and other.rack == "r1"
        assert await second.zookeeper.run(join_cluster("AAAA")) == await first.zookeeper.run(join_cluster("BBBB"))
        assert [await each.zookeeper.run(take_broker_id(1000)) for each in (first, second)] == [1001, 1002]


async def test_a_session_that_expires_is_told_and_followed_by_another(ensemble: ZooKeeperProcess) -> None:
    async with session(ensemble, "expiry") as made:
        zookeeper, before = made.zookeeper, made.zookeeper.session_id
        await asyncio.to_thread(ensemble.end_session, zookeeper)
        await told(made, Contact.EXPIRED)
        with pytest.raises(SessionExpired):
            await zookeeper.run(read("/"))
        await told(made, Contact.RENEWED)
        zookeeper.renew()
        assert await zookeeper.run(read("/")) is not None
        assert zookeeper.session_id != before


async def test_a_write_waits_for_a_lost_connection(ensemble: ZooKeeperProcess) -> None:
    async with session(ensemble, "away", 30_000) as made:
        await made.zookeeper.run(write(Create("/before")))
        await asyncio.to_thread(ensemble.kill)
        later = asyncio.ensure_future(made.zookeeper.run(write(Create("/after"))))
        await asyncio.to_thread(ensemble.start)
        assert await later is None
        assert await made.zookeeper.run(read("/after")) is not None
        assert Contact.EXPIRED not in contacts_of(made)


async def test_no_zookeeper_is_an_error_that_says_what_to_do() -> None:
    made = Noted(f"127.0.0.1:{free_port()}", 6000)
    made.zookeeper._connection_timeout_s = 0.3  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ZooKeeperUnreachable, match=r"no ZooKeeper answers at .* correct zookeeper.connect"):
        await made.zookeeper.start()
    with pytest.raises(SessionExpired):
        await made.zookeeper.run(read("/"))


async def test_a_stop_does_not_wait_for_a_zookeeper_that_hangs(
    ensemble: ZooKeeperProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("odradek.zookeeper.session.STOP_WITHIN_S", 0.2)
    async with session(ensemble, "stop") as made:
        ensemble.pause()
        try:
            await made.zookeeper.stop()
        finally:
            ensemble.go_on()
        # The stop goes on in its thread.
        for each in [each for each in threading.enumerate() if each.name == "odradek-zookeeper"]:
            await asyncio.to_thread(each.join)
    assert "does not answer: this session stays until its time-out" in caplog.text


async def test_a_session_that_cannot_be_ended_is_no_error(
    ensemble: ZooKeeperProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with session(ensemble, "writer") as made:
        client = made.zookeeper._client
        stop = client.stop

        def fail() -> None:
            stop()
            raise WriterNotClosedException("Writer still open")

        monkeypatch.setattr(client, "stop", fail)
        await made.zookeeper.stop()
        client.close()
    assert "does not answer" in caplog.text


async def test_a_zookeeper_that_was_away_is_looked_for_every_second(ensemble: ZooKeeperProcess) -> None:
    # kazoo by itself waits for up to a minute after it was away for a minute.
    async with session(ensemble, "away") as made:
        retry = made.zookeeper._client._connection.retry_sleeper
        assert (retry.max_tries, retry.max_delay) == (-1, 1.0)


async def test_a_start_that_is_cancelled_leaves_no_session_behind(ensemble: ZooKeeperProcess) -> None:
    before = set(threading.enumerate())
    made = Noted(f"{ensemble.address}/cancelled", 6000)
    start = asyncio.create_task(made.zookeeper.start(PERSISTENT))
    await told(made, Contact.CONNECTED)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    async with asyncio.timeout(20):
        while set(threading.enumerate()) - before:
            await asyncio.sleep(0.001)


async def test_a_write_that_this_zookeeper_never_takes_is_told_and_all_others_are_made(tmp_path: Path) -> None:
    """It takes less than others do. Each connection is dropped with what is under way in it."""
    with zookeeper(tmp_path, "-Djute.maxbuffer=4096") as small:
        async with session(small, "small") as made:
            run = made.zookeeper.run
            large = asyncio.ensure_future(run(write(Create("/large", bytes(5000)))))
            others = [asyncio.ensure_future(run(write(Create(f"/other-{number}")))) for number in range(20)]
            with pytest.raises(Dropped, match=r"for a write of 5\d+ bytes to /large: is its jute.maxbuffer smaller"):
                await large
            assert await asyncio.gather(*others) == [None] * 20
            assert await run(write(Create("/afterwards"))) is None
