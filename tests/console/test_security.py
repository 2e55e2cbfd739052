"""What keeps other web pages and strangers out, by raw HTTP."""

from __future__ import annotations

import base64
from dataclasses import replace

from odradek.broker import Broker
from odradek.client import Admin
from odradek.console import Console, ConsoleConfig
from odradek.tests.console.conftest import Browser
from odradek.tests.support.brokers.http import exchange

FORM = {"topic": "made", "step": "apply"}


async def raw(console: Console, text: str) -> bytes:
    return await exchange(console.address, text.replace("\n", "\r\n").encode())


async def test_another_host_is_refused_and_this_machine_is_let_in(console: Console) -> None:
    for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "localhost.evil"):
        answer = await raw(console, f"GET /topics HTTP/1.1\nHost: {host}\nConnection: close\n\n")
        assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), host
    for host in ("localhost", "127.0.0.1:9", "[::1]", "LOCALHOST"):
        answer = await raw(console, f"GET /topics HTTP/1.1\nHost: {host}\nConnection: close\n\n")
        assert answer.startswith(b"HTTP/1.1 200"), host


async def test_a_host_is_allowed_by_name(config: ConsoleConfig) -> None:
    async with Console(replace(config, allowed_hosts=("kafka.example",))) as console:
        answer = await raw(console, "GET /changes HTTP/1.1\nHost: Kafka.example:80\nConnection: close\n\n")
    assert answer.startswith(b"HTTP/1.1 200")


ELSEWHERE = (
    *({"sec_fetch_site": each} for each in ("cross-site", "same-site", "none")),
    *({"origin": each} for each in ("http://evil.example", "null")),
    {"sec_fetch_site": "cross-site", "origin": "http://127.0.0.1"},
)


async def test_a_change_from_another_page_is_refused(broker: Broker, browser: Browser) -> None:
    token = (await browser.get("/change/create-topic")).text.partition('name="token" value="')[2].partition('"')[0]
    for headers in ELSEWHERE:
        refused = await browser.post("/change/create-topic", {**FORM, "token": token}, **headers)
        assert refused.status == 403, headers
    assert await topics(broker) == []


async def test_another_page_may_link_to_a_page_and_load_none(browser: Browser) -> None:
    for site in ("cross-site", "same-site"):
        for mode, status in (("no-cors", 403), ("cors", 403), ("navigate", 200)):
            assert (await browser.get("/changes", sec_fetch_site=site, sec_fetch_mode=mode)).status == status, site


async def test_cookies_that_others_left_at_this_host_are_passed_over(config: ConsoleConfig, browser: Browser) -> None:
    form = await browser.get("/change/create-topic")
    token, own = form.text.partition('name="token" value="')[2].partition('"')[0], browser.headers["cookie"]
    async with Console(config) as other:  # on another port, to which browsers send the same cookies
        beside = Browser(other.url)
        await beside.get("/changes")
    name = own.partition("=")[0]
    browser.headers["cookie"] = f'{name}=a.b; prefs={{"dark": "[1]"}}; =; ;{beside.headers["cookie"]}; {own}'
    assert beside.headers["cookie"].partition("=")[0] != name
    assert (await browser.post("/change/create-topic", {"topic": "made", "token": token})).status == 200


async def test_a_change_needs_the_token_of_its_session(broker: Broker, browser: Browser) -> None:
    other = Browser(browser.url)
    stolen = (await other.get("/change/create-topic")).text.partition('name="token" value="')[2].partition('"')[0]
    await browser.get("/change/create-topic")
    for fields in ({}, {"token": ""}, {"token": "0" * 64}, {"token": stolen}):
        assert (await browser.post("/change/create-topic", {**FORM, **fields})).status == 403
    browser.headers["cookie"] = f"{browser.headers['cookie'].partition('=')[0]}=mine.forged"
    assert (await browser.post("/change/create-topic", {**FORM, "token": stolen})).status == 403
    assert await topics(broker) == []


async def test_a_get_changes_nothing(broker: Broker, browser: Browser) -> None:
    token = (await browser.get("/change/create-topic")).text.partition('name="token" value="')[2].partition('"')[0]
    await browser.get(f"/change/create-topic?topic=made&step=apply&token={token}")
    assert await topics(broker) == []
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = await exchange(
            browser.url.removeprefix("http://"),
            f"{method} /change/create-topic HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(),
        )
        assert answer.startswith(b"HTTP/1.1 405"), answer
    assert (await browser.post("/topics", {"token": token})).status == 405


async def test_a_change_is_a_form_of_the_console(browser: Browser) -> None:
    assert (await browser.post("/change/create-topic", FORM, content_type="text/plain")).status == 415
    assert (await browser.post("/change/create-topic", FORM, content_type="application/json")).status == 415


async def test_a_read_only_console_changes_nothing_and_offers_nothing(broker: Broker, config: ConsoleConfig) -> None:
    async with Console(replace(config, read_only=True)) as console:
        browser = Browser(console.url)
        assert (await browser.send("/change/create-topic", **FORM)).status == 403
        assert "/change/" not in (await browser.get("/topics")).text
    assert await topics(broker) == []


async def test_every_answer_says_what_a_browser_may_do_with_it(browser: Browser) -> None:
    for path in ("/topics", "/none", "/topics/none/records", "/change/create-topic"):
        headers = (await browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
    cookie = (await Browser(browser.url).get("/topics")).headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie


FILES = (
    ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static/", "/static/LICENSES.txt",
     "/static//etc/passwd", "/topics/..%2f..%2fetc%2fpasswd", "/topics/%00", "/topics/%ff", "//etc/passwd", "/%2e%2e"]
)  # fmt: skip


async def test_no_path_reads_a_file(console: Console) -> None:
    for path in FILES:
        answer = await raw(console, f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n")
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), path
        assert b"root:" not in answer and b"import" not in answer, path


async def test_a_login_is_asked_for_on_every_page(config: ConsoleConfig) -> None:
    async with Console(replace(config, login="ann:sécret")) as console:
        browser = Browser(console.url)
        for given in (None, "ann:x", "ann", "", ":", "bob:sécret"):
            if given is not None:
                browser.headers["authorization"] = "Basic " + base64.b64encode(given.encode()).decode()
            for path in ("/topics", "/none", "/series?kind=rate", "/change/create-topic"):
                answer = await browser.get(path)
                assert answer.status == 401 and answer.headers["www-authenticate"].startswith("Basic")
        browser.headers["authorization"] = "Basic " + base64.b64encode("ann:sécret".encode()).decode()
        page = await browser.get("/topics")
    assert page.status == 200 and "logged in as ann" in page.visible


async def test_requests_beyond_the_bounds_are_refused(console: Console) -> None:
    for text in (
        "GET / HTTP/1.1\n\n",
        "GET / HTTP/1.1\nHost: a\nHost: b\n\n",
        "no HTTP\n\n",
        "GET /" + "x" * 40_000 + " HTTP/1.1\nHost: localhost\n\n",
        "POST /change/create-topic HTTP/1.1\nHost: localhost\nContent-Length: 9999999\n\n" + "x" * 3_000_000,
        "POST /change/create-topic HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\nfffffff\n"
        + "x" * 3_000_000,
    ):
        answer = await raw(console, text)
        assert answer == b"" or answer[9:12] in (b"400", b"403", b"413", b"414", b"431"), answer[:100]
        assert (await Browser(console.url).get("/changes")).status == 200


async def topics(broker: Broker) -> list[str]:
    async with Admin(broker.address) as admin:
        return await admin.list_topics()
