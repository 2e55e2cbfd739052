"""Who logs in with the users of the cluster, and what others notice of it."""

from __future__ import annotations

import asyncio
import base64

import pytest
from odradek.client import Admin
from odradek.client.errors import AuthenticationFailed, NoBrokerReachable
from odradek.console.cluster import Cluster, ClusterOptions
from odradek.console.door import login as module
from odradek.console.door.login import ClusterLogin, OneLogin
from odradek.web import guesses
from odradek.web.exchange import HttpError, Request

OPTIONS = ClusterOptions("127.0.0.1:1", {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"})


def request(name: str) -> Request:
    given = base64.b64encode(f"{name}:secret".encode()).decode()
    return Request("GET", "/topics", headers={"authorization": f"Basic {given}"})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Plant a broker that answers nobody but the first user, until the event is set."""
    event, count = asyncio.Event(), 0

    async def start(_: Admin) -> None:
        nonlocal count
        count += 1
        if count > 1:
            await event.wait()

    monkeypatch.setattr(Admin, "start", start)
    return event


async def test_who_is_logged_in_does_not_wait_for_who_logs_in(opened: asyncio.Event) -> None:
    login = ClusterLogin(OPTIONS)
    _, cluster = await login.enter(request("ann"))
    waiting = asyncio.create_task(login.enter(request("bob")))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert await login.enter(request("ann")) == ("ann", cluster)
    assert not waiting.done()
    opened.set()
    assert (await waiting)[0] == "bob"
    await login.stop()


async def test_requests_of_a_user_who_logs_in_share_one_client(opened: asyncio.Event) -> None:
    opened.set()
    login = ClusterLogin(OPTIONS)
    (_, one), (_, other) = await asyncio.gather(login.enter(request("ann")), login.enter(request("ann")))
    assert one is other
    await login.stop()


async def test_a_page_of_a_user_who_had_to_go_opens_no_client_again(
    opened: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_USERS", 1)
    opened.set()
    login = ClusterLogin(OPTIONS)
    _, cluster = await login.enter(request("ann"))
    await login.enter(request("bob"))
    with pytest.raises(HttpError, match="load it again"):
        await cluster.admin()
    assert (await login.enter(request("ann")))[1] is not cluster
    await login.stop()


async def test_a_client_that_is_being_opened_at_the_stop_does_not_hold_it_up(opened: asyncio.Event) -> None:
    cluster = Cluster(ClusterOptions("127.0.0.1:1"))
    opening = asyncio.create_task(cluster.admin())
    await asyncio.sleep(0)
    await cluster.stop()
    with pytest.raises(HttpError, match="load it again"):
        await opening
    assert not opened.is_set()


@pytest.fixture
def passwords(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Plant a cluster with these users, which takes a moment to say that a password is wrong."""
    found = {"ann": "secret"}

    async def start(admin: Admin) -> None:
        options = admin._options
        if found.get(options["sasl_plain_username"]) != options["sasl_plain_password"]:
            await asyncio.sleep(0.05)
            raise AuthenticationFailed("wrong")

    async def stop(_: Admin) -> None: ...

    monkeypatch.setattr(Admin, "__init__", lambda self, servers, **options: setattr(self, "_options", options))
    monkeypatch.setattr(Admin, "start", start)
    monkeypatch.setattr(Admin, "stop", stop)
    monkeypatch.setattr(guesses, "DELAY_S", 0.0)
    return found


@pytest.mark.parametrize("change", [{}, {"ann": "another"}])
async def test_a_password_that_was_changed_or_deleted_opens_nothing_any_more(
    passwords: dict[str, str], monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    login = ClusterLogin(OPTIONS)
    _, cluster = await login.enter(request("ann"))
    monkeypatch.setattr(module, "CHECK_S", 0.0)
    assert (await login.enter(request("ann")))[1] is cluster
    passwords.clear()
    passwords.update(change)
    with pytest.raises(HttpError) as raised:
        await login.enter(request("ann"))
    assert raised.value.status == 401 and not login._users
    await login.stop()


async def test_while_no_broker_answers_a_password_is_asked_about_no_more_often(
    passwords: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request of a page waited for the brokers otherwise, one behind the other."""
    login = ClusterLogin(OPTIONS)
    _, cluster = await login.enter(request("ann"))
    (known,) = login._users.values()
    known.checked_s -= 2 * module.CHECK_S
    asked = 0

    async def fail(_: Admin) -> None:
        nonlocal asked
        asked += 1
        raise NoBrokerReachable("nobody is there")

    monkeypatch.setattr(Admin, "start", fail)
    entered = await asyncio.gather(*(login.enter(request("ann")) for _ in range(6)))
    assert {each for _, each in entered} == {cluster} and asked == 1
    await login.stop()


async def test_a_right_password_does_not_wait_behind_wrong_ones(passwords: dict[str, str]) -> None:
    login = ClusterLogin(OPTIONS)

    async def guess(number: int) -> None:
        with pytest.raises(HttpError):
            await login.enter(request(f"nobody-{number}"))

    guessing = [asyncio.create_task(guess(number)) for number in range(100)]
    await asyncio.sleep(0)
    before = asyncio.get_running_loop().time()
    assert (await login.enter(request("ann")))[0] == "ann"
    # One turn of the wrong ones, not a hundred of them.
    assert asyncio.get_running_loop().time() - before < 100 / module.AT_ONCE * 0.05 / 2
    await asyncio.gather(*guessing)
    assert login._attempts._free == module.AT_ONCE
    await login.stop()


async def test_attempts_that_are_cancelled_leave_their_turns(passwords: dict[str, str]) -> None:
    login = ClusterLogin(OPTIONS)
    tasks = [asyncio.create_task(login.enter(request(f"nobody-{number}"))) for number in range(30)]
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert login._attempts._free == module.AT_ONCE
    assert (await login.enter(request("ann")))[0] == "ann"
    await login.stop()


async def test_a_wrong_login_waits_and_is_a_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(guesses, "DELAY_S", 0.2)
    login = OneLogin(Cluster(OPTIONS), "ann:right")
    before = asyncio.get_running_loop().time()
    with pytest.raises(HttpError):
        await login.enter(request("ann"))
    assert asyncio.get_running_loop().time() - before >= 0.19
    assert [each.getMessage() for each in caplog.records] == ["a client: wrong name or password of 'ann'"]
