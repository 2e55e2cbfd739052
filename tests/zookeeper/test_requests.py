"""What a session asks again and what it gives up, against a client of ZooKeeper that answers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, NodeExistsError, NoNodeError, RuntimeInconsistency
from kazoo.protocol.states import KazooState
from odradek.zookeeper import session as sessions
from odradek.zookeeper.operations import (
    MAX_WRITE_BYTES,
    Check,
    Create,
    Delete,
    Dropped,
    Failure,
    Put,
    Refused,
    SessionExpired,
    TooLarge,
    check_size,
    read,
    write,
    write_all,
)
from odradek.zookeeper.session import Contact, Session


@dataclass
class Answer:
    """What kazoo returns for a request: it is there at once."""

    value: Any = None
    exception: Exception | None = None

    def rawlink(self, done: Callable[[Answer], None]) -> None:
        done(self)


@dataclass
class FakeKazoo:
    """Answers transactions and reads in their order."""

    commits: list[Answer] = field(default_factory=list)
    reads: list[Answer] = field(default_factory=list)
    sent: int = 0
    client_id: tuple[int, bytes] = (7, b"")
    client_state: str = "CONNECTED"
    # Answers the transactions instead.
    on_commit: Callable[[], Answer] | None = None

    def transaction(self) -> Any:
        """Take any change."""

        def take(*_: Any, **__: Any) -> None:
            """Take a change."""

        return SimpleNamespace(create=take, set_data=take, delete=take, check=take, commit_async=self._commit)

    def _commit(self) -> Answer:
        self.sent += 1
        return self.commits.pop(0) if self.on_commit is None else self.on_commit()

    def get_async(self, path: str) -> Answer:
        return self.reads.pop(0)


LOST = Answer(exception=ConnectionLoss())


@pytest.fixture
def kazoo(monkeypatch: pytest.MonkeyPatch) -> FakeKazoo:
    fake = FakeKazoo()
    monkeypatch.setattr(sessions, "KazooClient", lambda **_: fake)
    return fake


def znode(data: bytes, version: int = 0, owner: int = 0) -> Answer:
    return Answer((data, SimpleNamespace(version=version, czxid=1, mzxid=1, ephemeralOwner=owner)))


def connected(on_contact: Callable[[Contact], None] = lambda _: None) -> Session:
    made = Session("zookeeper:2181", 6000, 6000, lambda _: None, on_contact)
    made._note_state(KazooState.CONNECTED)  # pyright: ignore[reportPrivateUsage]
    return made


async def test_steps_of_a_session_that_has_expired_do_not_go_on_in_the_next(kazoo: FakeKazoo) -> None:
    made = connected(lambda contact: made.renew() if contact is Contact.RENEWED else None)
    note = made._note_state  # pyright: ignore[reportPrivateUsage]
    note(KazooState.SUSPENDED)
    kazoo.commits = [LOST]
    writing = asyncio.ensure_future(made.run(write(Create("/mine"))))
    async with asyncio.timeout(60):
        while not kazoo.sent:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    # The connection comes back with another session, and both are noted in one turn of the loop.
    note(KazooState.LOST)
    note(KazooState.CONNECTED)
    with pytest.raises(SessionExpired):
        await writing
    assert kazoo.sent == 1
    kazoo.reads = [znode(b"x")]
    found = await made.run(read("/"))
    assert found is not None and found.data == b"x"


@pytest.mark.parametrize(
    ("change", "error", "found", "is_done"),
    [
        (Create("/a", b"1"), NodeExistsError(), znode(b"1"), True),
        (Create("/a", b"1"), NodeExistsError(), znode(b"2"), False),
        (Create("/a", b"1", ephemeral=True), NodeExistsError(), znode(b"1", owner=7), True),
        (Create("/a", b"1", ephemeral=True), NodeExistsError(), znode(b"1", owner=8), False),
        (Put("/a", b"1"), NoNodeError(), Answer(exception=NoNodeError()), False),
    ],
)
async def test_a_write_whose_answer_was_lost_counts_as_done_where_its_effect_is_there(
    kazoo: FakeKazoo, change: Create | Put, error: Exception, found: Answer, is_done: bool
) -> None:
    kazoo.commits = [LOST, Answer([error])]
    kazoo.reads = [found]
    failure = await connected().run(write(change))
    assert (failure is None) == is_done
    assert kazoo.sent == 2


async def test_a_check_counts_as_done_where_its_znode_is_there(kazoo: FakeKazoo) -> None:
    kazoo.commits = [LOST, Answer([RuntimeInconsistency(), NodeExistsError()])]
    kazoo.reads = [znode(b"member"), znode(b"1")]
    assert await connected().run(write(Check("/member"), Create("/a", b"1"))) is None


async def test_of_several_changes_the_failure_names_the_one_in_the_way(kazoo: FakeKazoo) -> None:
    kazoo.commits = [Answer([RuntimeInconsistency(), NoNodeError()])]
    assert await connected().run(write(Create("/a"), Create("/b/c"))) == Failure("/b/c", missing=True)


async def test_an_answer_that_no_step_knows_is_an_error(kazoo: FakeKazoo) -> None:
    """A failure without a reason would be tried again for ever."""
    kazoo.commits = [Answer([NoAuthError()])]
    with pytest.raises(Refused, match="refuses to change /a: NoAuthError"):
        await connected().run(write(Create("/a")))


# -- What is too large


@pytest.mark.parametrize("change", [Create("/topic", bytes(MAX_WRITE_BYTES)), Put("/topic", bytes(MAX_WRITE_BYTES))])
async def test_a_write_that_zookeeper_would_not_take_is_refused_and_never_sent(
    kazoo: FakeKazoo, change: Create | Put
) -> None:
    with pytest.raises(TooLarge, match=r"the znode /topic would take \d+ bytes, and ZooKeeper takes 1000000"):
        await connected().run(write(Create("/a"), change))
    with pytest.raises(TooLarge):
        await connected().run(write_all([(Create("/a"),), (change,)]))
    assert kazoo.sent == 0


def test_many_small_changes_are_too_large_together() -> None:
    check_size(*(Delete(f"/{number}") for number in range(5000)))
    with pytest.raises(TooLarge):
        check_size(*(Delete(f"/{number}") for number in range(10_000)))


async def test_a_write_for_which_zookeeper_drops_two_connections_is_given_up(kazoo: FakeKazoo) -> None:
    made = connected()
    note = made._note_state  # pyright: ignore[reportPrivateUsage]

    def lose() -> Answer:
        """Lose the connection, and let another come."""
        note(KazooState.SUSPENDED)
        note(KazooState.CONNECTED)
        return LOST

    kazoo.on_commit = lose
    kazoo.reads = [Answer(exception=NoNodeError())]
    with pytest.raises(Dropped, match=r"dropped the connection twice for a write of \d+ bytes to /a"):
        await made.run(write(Create("/a", b"1")))
    assert kazoo.sent == 2


async def test_a_write_that_is_lost_several_times_with_one_connection_is_tried_again(kazoo: FakeKazoo) -> None:
    """kazoo knows that the connection is gone before it says so."""
    kazoo.commits = [LOST, LOST, LOST, Answer([True])]
    assert await connected().run(write(Create("/a", b"1"))) is None
    assert kazoo.sent == 4
