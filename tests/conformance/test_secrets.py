"""Nothing that a run writes has a secret in it: logs, answers, pages, metrics, errors and data directories.

The secrets are those of every kind of login: passwords, what SCRAM makes of them, tokens, private keys and their
passwords; what is wrong, too, because people mistype passwords.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trustme", reason="the certificates are trustme's")
pytest.importorskip("jinja2", reason="the console needs jinja2 (extra `console`)")

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from odradek.broker import BrokerConfig
from odradek.client import Admin, ConfigChange, ConfigResource, Consumer, KafkaError, NewTopic, Producer
from odradek.console import Console, ConsoleConfig
from odradek.console.cluster import ClusterOptions
from odradek.tests.support.brokers.http import exchange, get
from odradek.tests.support.brokers.process import BrokerProcess, free_port
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.documents.command import completed
from odradek.tests.support.security.sasl import authenticate, bearer, handshake, token
from odradek.tests.support.security.secrets import Secrets, files_of
from odradek.tests.support.security.tls import Authority

PLAIN, SCRAM, KEY, CONSOLE = "plain-5ecret-one", "scram-5ecret-two", "key-5ecret-three", "console-5ecret-four"
WRONG, LATER, OFFLINE = "wrong-5ecret-five", "later-5ecret-six", "offline-5ecret-seven"
SALT = b"salt of 16 bytes"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MAX_PAGES = 60


class Secretive(BrokerProcess):
    """`odradek serve` that logs everything, with an encrypted key in its configs, and users of each mechanism."""

    log_format = "human"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ports = {name: free_port() for name in ("PLAINTEXT", "AUTH", "HTTP")}
        self.address = self.at("PLAINTEXT")
        self.authority = Authority(folder)
        self.secrets = Secrets()
        self.properties = folder / "server.properties"
        self._write()

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def _write(self) -> None:
        issued = self.authority.ca.issue_cert("localhost", "127.0.0.1")
        plain = load_pem_private_key(issued.private_key_pem.bytes(), None)
        key = plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(KEY.encode())).decode()
        self.secrets.add_key("the private key", issued.private_key_pem.bytes().decode())
        self.secrets.add_key("the encrypted key", key)
        lines = {
            "listeners": f"PLAINTEXT://{self.address},AUTH://{self.at('AUTH')}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,AUTH:SASL_SSL",
            "http.listener": self.at("HTTP"),
            "log.dirs": str(self.data_dir),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": issued.cert_chain_pems[0].bytes().decode(),
            "ssl.key.password": KEY,
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.auth.plain.sasl.jaas.config": f'PlainLoginModule required user_alice="{PLAIN}";',
            "listener.name.auth.oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required;",
            "connection.failed.authentication.delay.ms": "0",
        }
        escaped = {name: value.replace("\n", "\\n") for name, value in lines.items()}
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))

    def command(self) -> list[str]:
        logs = ["--log-level", "debug", "--log-format", self.log_format]
        return [sys.executable, *self.program(), "serve", "--config", str(self.properties), *logs]

    def options(self, mechanism: str, password: str) -> dict[str, Any]:
        """The options of our clients."""
        found = {"security_protocol": "SASL_SSL", "ssl_cafile": str(self.authority.path), "sasl_mechanism": mechanism}
        if mechanism == "OAUTHBEARER":
            return {**found, "sasl_oauth_token_provider": lambda: password}
        return {**found, "sasl_plain_username": "alice", "sasl_plain_password": password}


class Run:
    """A broker with everything that was written while it ran."""

    def __init__(self, broker: Secretive) -> None:
        self.broker = broker
        self.written: list[tuple[str, bytes]] = []
        self.right = dict(zip(MECHANISMS, (PLAIN, SCRAM, SCRAM, token("alice", 600)), strict=True))
        self.wrong = dict.fromkeys(MECHANISMS, WRONG) | {"OAUTHBEARER": token("alice", -1, other=WRONG)}
        secrets = broker.secrets
        for name, secret in {"PLAIN": PLAIN, "SCRAM": SCRAM, "key": KEY, "console": CONSOLE, "wrong": WRONG}.items():
            secrets.add(f"the password {name}", secret)
        for name, tokens in {"right": self.right, "wrong": self.wrong}.items():
            secrets.add(f"the {name} token", tokens["OAUTHBEARER"])
        secrets.add("a later password", LATER)
        secrets.add("a password set offline", OFFLINE)
        secrets.add_salted("the password SCRAM", SCRAM, SALT)

    def note(self, where: str, text: object) -> None:
        self.written.append((where, text if isinstance(text, bytes) else str(text).encode()))

    def command(self, *words: str, stdin: bytes = b"") -> None:
        """Run a command of ours, which may fail."""
        done = completed(*words, stdin=stdin)
        self.note(" ".join(words[:2]), done.stdout + done.stderr)

    async def attempt(self, where: str, work: Callable[[], Awaitable[object]]) -> bool:
        """Note what a client returns, or how it fails."""
        try:
            self.note(where, repr(await work()))
        except (KafkaError, OSError, EOFError) as error:
            self.note(where, f"{error} {error!r} {''.join(traceback.format_exception(error))}")
            return False
        return True


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    broker = Secretive(tmp_path)
    completed(
        "users", "set", "carol", "--password-file", "-", "--data-dir", str(broker.data_dir), stdin=OFFLINE.encode()
    )
    broker.start()
    yield Run(broker)
    if broker.is_running:
        broker.kill()


def test_each_form_of_a_secret_is_found() -> None:
    secrets = Secrets({"quoted": b'a "b\\c', "bytes": b"\x01\xff\x02"})
    for form in (b'a "b\\c', b"YSAiYlxj", b'a "b\\\\c', b"a%20%22b%5Cc", b"01ff02", b"\\x01\\xff\\x02", b"Af8C"):
        assert len(secrets.found_in([("here", b"x" + form + b"y")])) == 1, form
    assert secrets.found_in([("here", b"a b c")]) == []


async def test_nothing_shows_a_secret(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    broker = run.broker
    with caplog.at_level(logging.DEBUG):
        await set_scram_passwords(broker)
        await use_everything(run)
        await look_at_everything(run)
        broker.kill()
        human, broker.log_format = len(broker.log.read_text()), "json"
        broker.start()
        await use_everything(run)
        broker.stop()
    logged = broker.log.read_text()
    await starts_that_fail(run)
    run.note("the logs of our clients", caplog.text)
    run.note("repr of the config", repr(BrokerConfig.parse(read(broker.properties))[0].of_listener("AUTH")))
    assert human > 5_000 and len(logged) > human + 5_000 and '{"' in logged[human:], "it logged next to nothing"
    # The password that AlterConfigs has set is in the metadata journal, as in Kafka, and nowhere else.
    journal = [path for path in broker.data_dir.rglob("*") if "__cluster_metadata" in str(path)]
    files = files_of(broker.folder, [broker.properties, *journal])
    assert broker.secrets.found_in([*run.written, *files]) == []
    kept = Secrets({name: secret for name, secret in broker.secrets.known.items() if name != "a later password"})
    assert kept.found_in((str(path), path.read_bytes()) for path in journal if path.is_file()) == []


async def use_everything(run: Run) -> None:
    await log_in_by_each_mechanism(run)
    await send_bad_messages(run)
    await change_configs(run)


async def set_scram_passwords(broker: Secretive) -> None:
    from odradek.tests.support.security.sasl import set_password

    async with await Raw.connect(broker.address) as raw:
        for mechanism in (1, 2):
            assert await set_password(raw, "alice", SCRAM, mechanism) == 0


async def log_in_by_each_mechanism(run: Run) -> None:
    at = run.broker.at("AUTH")
    for mechanism in MECHANISMS:

        async def work(mechanism: str = mechanism, passwords: dict[str, str] = run.right) -> object:
            options = run.broker.options(mechanism, passwords[mechanism])
            async with Admin(at, default_api_timeout_ms=3_000, **options) as admin:
                if not await admin.list_topics():
                    await admin.create_topics([NewTopic("t", 1)])
            async with Producer(at, **options) as producer:
                await producer.send_and_wait("t", b"value")
            reader = Consumer("t", bootstrap_servers=at, group_id="g", auto_offset_reset="earliest", **options)
            async with reader:
                await reader.getone()
            return options.get("sasl_mechanism"), admin, producer, reader

        assert await run.attempt(f"right {mechanism}", work), run.written[-1]
        assert not await run.attempt(f"wrong {mechanism}", lambda work=work: work(passwords=run.wrong))


async def send_bad_messages(run: Run) -> None:
    """Passwords and tokens where they do not belong."""
    messages = (
        ("PLAIN", f"alice\0{WRONG}".encode()),
        ("PLAIN", f"\0\0alice\0{WRONG}".encode()),
        ("PLAIN", WRONG.encode() + b"\xff\0\0"),
        ("SCRAM-SHA-256", WRONG.encode()),
        ("SCRAM-SHA-512", f"n,,n=alice,r=nonce,p={WRONG}".encode()),
        ("OAUTHBEARER", WRONG.encode()),
        ("OAUTHBEARER", bearer(run.right["OAUTHBEARER"] + "x")),
        ("OAUTHBEARER", bearer(WRONG)),
    )
    for mechanism, message in messages:

        async def work(mechanism: str = mechanism, message: bytes = message) -> object:
            context = run.broker.authority.context()
            async with await Raw.connect(run.broker.at("AUTH"), ssl=context) as raw:
                await handshake(raw, mechanism)
                return await authenticate(raw, message)

        await run.attempt(f"a bad message of {mechanism}", work)


async def change_configs(run: Run) -> None:
    """Set passwords while the broker runs: rightly, and wrongly."""
    broker = ConfigResource.broker(1)
    async with Admin(run.broker.address) as admin:
        for name, value in (
            ("listener.name.auth.ssl.key.password", LATER),
            ("ssl.key.password", WRONG),
            ("listener.name.auth.plain.sasl.jaas.config", f'PlainLoginModule required user_alice="{WRONG}'),
            ("sasl.jaas.config", f'PlainLoginModule required user_alice="{WRONG}";'),
            ("listener.name.auth.ssl.keystore.key", f"-----BEGIN PRIVATE KEY-----\n{WRONG}\n-----END PRIVATE KEY-----"),
            ("ssl.truststore.password", WRONG),
        ):
            change = [ConfigChange(name, value)]
            await run.attempt(f"set {name}", lambda change=change: admin.alter_configs({broker: change}))


async def look_at_everything(run: Run) -> None:
    broker, at = run.broker, run.broker.at("AUTH")
    async with Admin(broker.address) as admin:
        await run.attempt("configs", lambda: admin.describe_configs([ConfigResource.broker(1)]))
        await run.attempt("users", admin.describe_user_scram_credentials)
        await run.attempt("health", admin.check_health)
    given = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.authority.path),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
    }
    for password in (SCRAM, WRONG):
        where = [
            part for name, value in (given | {"sasl.password": password}).items() for part in ("-X", f"{name}={value}")
        ]
        for words in (
            ("doctor", "--config", str(broker.properties)),
            ("config", "describe", "--broker", "1"),
            ("config", "list"),
            ("users", "list"),
            ("cluster", "info"),
            ("topics", "list", "-X", f"sasl.jaas.config=NoModule required username=alice password={WRONG};"),
        ):
            own = [] if words == ("config", "list") else ["-b", at, *where]
            await asyncio.to_thread(run.command, *words, *own)
    await asyncio.to_thread(run.command, "users", "set", "bob", "--password-file", "-", "-b", broker.address, stdin=b"")
    for path in ("/metrics", "/metrics/kafka", "/ready", "/live"):
        run.note(path, (await get(broker.at("HTTP"), path)).text)
    await read_pages(run)


async def read_pages(run: Run) -> None:
    """Follow the links of the console."""
    options = run.broker.options("SCRAM-SHA-256", SCRAM)
    cluster = ClusterOptions(run.broker.at("AUTH"), options, options, options)
    config = ConsoleConfig(cluster=cluster, port=0)
    run.note("the console's config", repr(config))
    async with Console(config) as console:
        seen, waiting = set[str](), ["/topics"]
        while waiting and len(seen) < MAX_PAGES:
            path = waiting.pop(0)
            seen.add(path)
            request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            body = (await exchange(console.address, request.encode())).decode(errors="replace")
            run.note(path, body)
            found = (unescape(each) for each in re.findall(r'href="(/[^"#]*)"', body))
            waiting += [each for each in dict.fromkeys(found) if each not in seen and each not in waiting]
    assert len(seen) > 5, seen


async def starts_that_fail(run: Run) -> None:
    """Each start names what is wrong, and nothing else."""
    text = run.broker.properties.read_text()
    for number, (old, new) in enumerate(
        (
            (f"ssl.key.password={KEY}", f"ssl.key.password={WRONG}"),
            (f'user_alice="{PLAIN}";', f'user_alice="{PLAIN} user_bob={WRONG}'),
            (f"ssl.key.password={KEY}", f"ssl.key.password={KEY}\nssl.keystore.password={WRONG}"),
            ("BEGIN ENCRYPTED PRIVATE KEY", "BEGIN ENCRYPTED"),
            (f"ssl.key.password={KEY}", f"ssl.key.password={KEY}\nssl.key.passwort={WRONG}"),
        )
    ):
        assert old in text
        bad = run.broker.folder / f"bad-{number}.properties"
        bad.write_text(text.replace(old, new))
        words = ("serve", "--config", str(bad), "--log-level", "debug", "--set", "listeners=AUTH://127.0.0.1:0")
        if number < 4:
            await asyncio.to_thread(run.command, *words)
        await asyncio.to_thread(run.command, "doctor", "--config", str(bad))
        bad.unlink()


def read(path: Path) -> dict[str, str]:
    from odradek.broker.configs.properties import load

    return dict(load(path))
