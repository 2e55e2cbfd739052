"""A broker in a thread, a console over it in the test's own loop, and a browser's requests by plain HTTP."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.console import Console, ConsoleConfig
from odradek.console.cluster import ClusterOptions
from odradek.tests.support.brokers.process import FEW_PARTITIONS


@dataclass(frozen=True)
class Answer:
    """What a request brought."""

    status: int
    text: str
    headers: Message

    @property
    def visible(self) -> str:
        """The text of a page without its tags."""
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.text))


def _hidden(page: Answer, name: str) -> str:
    found = re.search(rf'name="{name}" value="(\w+)"', page.text)
    assert found is not None, page.visible
    return found[1]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@dataclass
class Browser:
    """A browser without scripts: it keeps its cookie, and sends the forms of pages."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Answer:
        return await asyncio.to_thread(self._ask, "GET", path, None, headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        """Send fields as they are."""
        body = urllib.parse.urlencode(fields, errors="surrogatepass").encode()
        return await asyncio.to_thread(self._ask, "POST", path, body, headers)

    async def send(self, path: str, **fields: str) -> Answer:
        """Open the page of a form, and send it with its token: the preview, or with step="apply" the change."""
        page = await self.get(path)
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        if fields.pop("step", "") != "apply":
            return await self.post(path, {"token": _hidden(page, "token"), **fields})
        preview = await self.post(path, {"token": _hidden(page, "token"), **fields})
        return await self.apply(path, preview, **fields)

    async def apply(self, path: str, preview: Answer, **fields: str) -> Answer:
        """Press the button of a preview that `send` has returned. One with a problem has none."""
        if 'name="seen"' not in preview.text:
            return preview
        given = {name.replace("_", "-"): value for name, value in fields.items()}
        sent = {name: _hidden(preview, name) for name in ("token", "seen")}
        return await self.post(path, {**sent, "step": "apply", **given})

    async def change(self, path: str, **fields: str) -> Answer:
        """Make a change, and return the page that tells of it."""
        made = await self.send(path, step="apply", **fields)
        assert made.status == 303, made.visible
        return await self.get(made.headers["location"])

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        given = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        request = urllib.request.Request(self.url + path, method=method, data=body, headers=given)
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=60) as answer:
                found = Answer(answer.status, answer.read().decode(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                found = Answer(error.code, error.read().decode(), error.headers)
        if cookie := found.headers.get("set-cookie"):
            self.headers["cookie"] = cookie.partition(";")[0]
        return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path / "data"),),
        group_initial_rebalance_delay_ms=0,
        **FEW_PARTITIONS,
    )
    with Broker(config) as broker:
        yield broker


@pytest.fixture
def config(broker: Broker) -> ConsoleConfig:
    return ConsoleConfig(ClusterOptions(broker.address), port=0)


@pytest.fixture
async def console(config: ConsoleConfig) -> AsyncIterator[Console]:
    async with Console(config) as console:
        yield console


@pytest.fixture
def browser(console: Console) -> Browser:
    return Browser(console.url)
