"""Who logs in with the users of the cluster, and what others notice of it."""

from __future__ import annotations

import asyncio
import base64

import pytest
from odradek.client import Admin
from odradek.console.cluster import Cluster, ClusterOptions
from odradek.console.door import login as module
from odradek.console.door.login import ClusterLogin
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
