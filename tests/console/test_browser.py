"""The console in a real browser: every page by keyboard, axe, the back button, and a burst in the live tail."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.client import Consumer, Producer
from odradek.console import Console

CHROMIUM, DRIVER = (shutil.which(each) for each in ("chromium", "chromedriver"))
AXE = Path(__file__).parent / "axe.min.js"
WAIT_S = 60
BURST = 2_000

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="no chromium with chromedriver (Debian: chromium chromium-driver)"
)


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for each in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,860",
    ):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(WAIT_S)
    yield driver
    driver.quit()


@pytest.fixture
async def page(chrome: Any, broker: Broker, console: Console) -> AsyncIterator[Page]:
    async with Producer(broker.address) as producer:
        for number in range(60):
            await producer.send("flights", json.dumps({"number": number}).encode(), key=b"UA", headers=[("h", b"v")])
    async with Consumer(
        "flights", bootstrap_servers=broker.address, group_id="delays", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.getmany(timeout_ms=10_000)
    await console.history.sample()
    page = Page(chrome, console.url)
    await page.prefer("light")
    yield page


class Page:
    """A browser's page. Its calls wait in a thread, because the console answers in this loop."""

    def __init__(self, chrome: Any, url: str) -> None:
        self.chrome = chrome
        self.url = url

    async def command(self, name: str, **given: Any) -> Any:
        return await asyncio.to_thread(self.chrome.execute_cdp_cmd, name, given)

    async def prefer(self, colors: str) -> None:
        """Prefer these colors, and no motion: what fades goes on from the colors that it began with."""
        wanted = {"prefers-color-scheme": colors, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        await self.command("Emulation.setEmulatedMedia", features=features)

    @asynccontextmanager
    async def with_axe(self) -> AsyncIterator[None]:
        """Have axe in each page meanwhile, past the content security policy: the driver brings it, not the page."""
        source = AXE.read_text(encoding="utf-8") + "; window.axe = axe;"
        script = await self.command("Page.addScriptToEvaluateOnNewDocument", source=source)
        yield
        await self.command("Page.removeScriptToEvaluateOnNewDocument", **script)

    async def violations(self, options: dict[str, Any]) -> list[str]:
        """Return what axe finds."""
        return await asyncio.to_thread(
            self.chrome.execute_async_script,
            "const done = arguments[1]; axe.run(document, arguments[0]).then((r) => done(r.violations.map("
            "(v) => v.id + ' ' + v.nodes.map((n) => n.html.slice(0, 120)).join(' | '))));",
            options,
        )

    async def open(self, path: str) -> None:
        await asyncio.to_thread(self.chrome.get, self.url + path)

    async def run(self, script: str, *arguments: Any) -> Any:
        return await asyncio.to_thread(self.chrome.execute_script, script, *arguments)

    async def until(self, script: str) -> Any:
        """Wait until a script returns something."""
        async with asyncio.timeout(WAIT_S):
            while not (found := await self.run(script)):
                await asyncio.sleep(0.05)
        return found

    async def press(self, *keys: str) -> None:
        def send() -> None:
            for key in keys:
                self.chrome.switch_to.active_element.send_keys(key)

        await asyncio.to_thread(send)

    async def errors(self) -> list[str]:
        """Return what the browser complained of: refused scripts and styles, failed loads."""
        return [each["message"] for each in await asyncio.to_thread(self.chrome.get_log, "browser")]

    async def where(self) -> str:
        return (await self.run("return location.pathname + location.search")) or ""


VIEWS = [
    "/topics", "/topics/flights", "/topics/flights/records", "/topics/flights/records/0/1", "/topics/flights/configs",
    "/topics/flights/producers", "/groups", "/group?id=delays", "/cluster", "/brokers/1", "/transactions", "/acls",
    "/health", "/users", "/quotas", "/changes", "/change/create-topic", "/change/produce?topic=flights", "/nothing",
    "/topics/flights/records?filter=value.number+%3E",
]  # fmt: skip


async def test_axe_finds_nothing_in_the_light_and_in_the_dark_and_the_browser_complains_of_nothing(page: Page) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not there: npm pack axe-core, and its axe.min.js to tests/console")
    found: dict[str, list[str]] = {}
    await page.errors()
    await page.prefer("light")
    async with page.with_axe():
        for view in [*VIEWS, "/topics/flights/tail"]:
            await page.open(view)
            report = await page.violations({})
            await page.prefer("dark")
            # Nothing but its colours is another in the dark.
            report += await page.violations({"runOnly": ["color-contrast"]})
            await page.prefer("light")
            complaints = [each for each in await page.errors() if "404" not in each and "400" not in each]
            if report or complaints:
                found[view] = report + complaints
    assert found == {}


async def test_every_page_is_reached_by_keyboard_and_the_way_back_leads_back(page: Page) -> None:
    await page.open("/topics")
    ways = {"g": "/groups", "c": "/cluster", "x": "/transactions", "a": "/acls", "u": "/users", "q": "/quotas"}
    for key, path in {**ways, "h": "/changes", "t": "/topics"}.items():
        await page.run("document.body.focus()")
        await page.press("g", key)
        await page.until(f"return location.pathname === '{path}' && document.readyState === 'complete'")
    for path in ("/changes", "/quotas"):
        await asyncio.to_thread(page.chrome.back)
        await page.until(f"return location.pathname === '{path}'")


async def test_tab_reaches_what_can_be_pressed_and_shows_where_it_is(page: Page) -> None:
    for colors in ("light", "dark"):
        await page.prefer(colors)
        await page.open("/topics")
        await page.run(
            "window.seen = []; addEventListener('focusin', ({target: e}) => seen.push("
            "[e.textContent.trim() || e.name || e.type, getComputedStyle(e).outlineStyle]))"
        )
        await page.press("\ue004" * 40)
        seen = await page.run("return seen")
        texts = [text for text, _ in seen]
        assert len(texts) > 20 and texts[0] == "To the content", texts
        for wanted in ("Groupsg g", "q", "Show", "Create a topic", "flights"):
            assert wanted in texts, texts
        assert [each for each in seen if each[1] == "none"] == []


async def test_a_search_follows_what_is_typed_and_has_an_address(page: Page) -> None:
    await page.open("/topics?internal=1")
    await page.press("/")
    await page.press(*"flig")
    await page.until("return document.querySelectorAll('#list tbody tr').length === 1")
    await page.until("return location.search.includes('q=flig')")
    await asyncio.to_thread(page.chrome.refresh)
    assert await page.run("return document.querySelectorAll('#list tbody tr').length") == 1


async def test_a_burst_is_complete_in_the_live_tail(page: Page, broker: Broker) -> None:
    await page.open("/topics/flights/tail")
    await page.until("return document.getElementById('tail-state').textContent.startsWith('waiting')")
    async with Producer(broker.address) as producer:
        for number in range(BURST):
            await producer.send("flights", b"burst-%d-" % number)
    await page.until(f"return document.getElementById('tail').rows.length >= {BURST}")
    text = await page.run("return document.getElementById('tail').textContent")
    assert [number for number in range(BURST) if f"burst-{number}-" not in text] == []
    assert "left out" not in await page.run("return document.getElementById('tail-state').textContent")


async def test_a_change_is_made_by_its_form_and_shown(page: Page) -> None:
    await page.open("/change/create-topic")
    await page.run("document.querySelector('[name=topic]').focus()")
    await page.press("made", "\ue007")
    await page.until("return document.querySelector('.command') && document.querySelector('form.bar button.primary')")
    await page.run("document.querySelector('form.bar button.primary').focus()")
    await page.press("\ue007")
    await page.until("return location.pathname === '/changes/1'")
    assert "odradek topics create made" in await page.run("return document.querySelector('.command').textContent")
    await page.open("/topics/made")
    assert await page.run("return document.querySelector('h1').textContent") == "made"


async def test_lines_of_the_last_hour_are_drawn(page: Page) -> None:
    await page.open("/group?id=delays")
    await page.until("return document.querySelectorAll('figure canvas').length === 2")
    assert "in the last hour" in await page.run("return document.querySelector('figcaption span').textContent")
