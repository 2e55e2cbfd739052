"""What strangers do at the doors of a secure broker: each function takes the doors and how often it is done."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from struct import pack

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from odradek.broker.configs.security_table import AUTHORIZERS
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.tests.support.brokers.process import BrokerProcess, free_port
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.security.sasl import USER, authenticate, bearer, handshake
from odradek.tests.support.security.tls import Authority

# So many connections of strangers are open at a time.
AT_A_TIME = 64
LISTENERS = ("PLAINTEXT", "AUTH", "TLS", "MTLS")
METADATA = MetadataRequest(topics=[])
WAIT_S = 120
# How long half messages are held, while others are served.
HELD_S = 1
POLICY_VIOLATION, AUTHENTICATION_FAILED = 44, 58


@dataclass(frozen=True)
class Doors:
    """The addresses of a broker's listeners by name, and the authority behind its certificate."""

    ports: dict[str, int]
    authority: Authority

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    @classmethod
    def make(cls, folder: Path) -> Doors:
        folder.mkdir(parents=True, exist_ok=True)
        return cls({name: free_port() for name in LISTENERS}, Authority(folder))

    def configs(self, data_dir: Path) -> dict[str, str]:
        """The configs of a broker with these listeners. Who does not authenticate may do everything."""
        protocols = "PLAINTEXT:PLAINTEXT,AUTH:SASL_PLAINTEXT,TLS:SSL,MTLS:SSL"
        return {
            "listeners": ",".join(f"{name}://{self.at(name)}" for name in self.ports),
            "listener.security.protocol.map": protocols,
            "log.dirs": str(data_dir),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.store()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.path),
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "listener.name.auth.plain.sasl.jaas.config": f'PlainLoginModule required user_{USER}="secret";',
            "listener.name.auth.oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required;",
            # Strangers that wait for their answer would only make the test longer.
            "connection.failed.authentication.delay.ms": "0",
            "authorizer.class.name": AUTHORIZERS[0],
            "super.users": "User:ANONYMOUS",
        }


class Guarded(BrokerProcess):
    """`odradek serve` with a listener for each way to be secure."""

    def __init__(self, folder: Path, **configs: str) -> None:
        """`configs` are written as they are, behind those of the doors."""
        super().__init__(folder)
        self.doors = Doors.make(folder / "tls")
        self.address = self.doors.at("PLAINTEXT")
        self._configs = configs

    def command(self) -> list[str]:
        properties = self.folder / "server.properties"
        lines = self.doors.configs(self.data_dir) | self._configs
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return [sys.executable, *self.program(), "serve", "--config", str(properties)]


Attack = Callable[[Doors, int], Awaitable[None]]


async def _many(count: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Do something so often, a bounded number at a time."""
    numbers = iter(range(count))

    async def one_after_the_other() -> None:
        for number in numbers:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_A_TIME, count)):
            group.create_task(one_after_the_other())


def _hello(authority: Authority) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        authority.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


async def half_handshakes(doors: Doors, count: int) -> None:
    """A piece of a ClientHello, or all of it, and then nothing."""
    hello, rolls = _hello(doors.authority), random.Random(1)

    async def work(_: int) -> None:
        async with await Raw.connect(doors.at("TLS")) as raw:
            raw.send_bytes(hello[: rolls.choice([1, 5, 43, len(hello) - 1, len(hello)])])
            await asyncio.sleep(0)

    await _many(count, work)


async def one_byte_at_a_time(doors: Doors, count: int) -> None:
    """A login whose bytes come one by one. It is slow, and right."""
    login = b"".join(
        pack(">i", len(body)) + body
        for body in (
            pack(">hhih", 17, 1, 1, -1) + pack(">h", 5) + b"PLAIN",
            pack(">hhih", 36, 0, 2, -1) + pack(">i", 13) + b"\0alice\0secret",
        )
    )

    async def work(_: int) -> None:
        async with await Raw.connect(doors.at("AUTH"), WAIT_S) as raw:
            for at in range(len(login)):
                raw.send_bytes(login[at : at + 1])
                await asyncio.sleep(0)
            await raw.receive_bytes()
            assert (await raw.receive_bytes())[4:6] == b"\0\0"

    await _many(count, work)


async def wrong_proofs(doors: Doors, count: int) -> None:
    """SCRAM logins as a user that there is, with the proof of another password."""
    proof = base64.b64encode(bytes(32))

    async def work(_: int) -> None:
        async with await Raw.connect(doors.at("AUTH"), WAIT_S) as raw:
            await handshake(raw, "SCRAM-SHA-256")
            first = await authenticate(raw, b"n,,n=alice,r=nonce")
            nonce = first.auth_bytes.split(b",")[0]
            assert (await authenticate(raw, b"c=biws," + nonce + b",p=" + proof)).error_code == AUTHENTICATION_FAILED

    await _many(count, work)


async def half_logins(doors: Doors, count: int) -> None:
    """Half of the largest message before a login, from each of many connections, which stay open."""
    size = 512 * 1024
    raws: list[Raw] = []
    try:
        for _ in range(count):
            raw = await Raw.connect(doors.at("AUTH"), WAIT_S)
            raw.send_bytes(pack(">i", size) + bytes(size // 2 + 50_000))
            raws.append(raw)
            await asyncio.sleep(0)
        await asyncio.sleep(HELD_S)
    finally:
        for raw in raws:
            raw.close()


async def bearer_tokens(doors: Doors, count: int) -> None:
    """Tokens of 60 KB, all sent at the same time."""
    message = bearer("a" * 20_000 + "." + "b" * 40_000 + ".")
    request = frame.encode_request(ApiKey.SASL_AUTHENTICATE, 2, 1, "", SaslAuthenticateRequest(message))
    whole = b"".join(map(bytes, request))
    for start in range(0, count, 500):
        raws = [await Raw.connect(doors.at("AUTH"), WAIT_S) for _ in range(min(500, count - start))]
        try:
            for raw in raws:
                await handshake(raw, "OAUTHBEARER")
                raw.send_bytes(whole[:-1])
            for raw in raws:
                raw.send_bytes(whole[-1:])
            for raw in raws:
                with contextlib.suppress(EOFError, ConnectionError):
                    await raw.receive_bytes()
        finally:
            for raw in raws:
                raw.close()


async def huge_messages(doors: Doors, count: int) -> None:
    """Names, nonces, extensions and tokens of half a megabyte."""
    size = 500_000
    messages = [
        ("SCRAM-SHA-256", b"n,,n=" + b"a" * size + b",r=n"),
        ("SCRAM-SHA-256", b"n,,n=" + b"=2C" * (size // 3) + b",r=n"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=n" + b",a=b" * (size // 4)),
        ("PLAIN", b"\0" + b"a" * size + b"\0x"),
        ("PLAIN", b"\0" * size),
        ("OAUTHBEARER", bearer("a" * size)),
        ("OAUTHBEARER", bearer("W1tb" * (size // 4) + "..")),
        ("OAUTHBEARER", b"n,," + b"\x01a=b" * (size // 4)),
    ]

    async def work(number: int) -> None:
        mechanism, message = messages[number % len(messages)]
        async with await Raw.connect(doors.at("AUTH"), WAIT_S) as raw:
            await handshake(raw, mechanism)
            response = await authenticate(raw, message)
            assert response.error_code == AUTHENTICATION_FAILED or b"invalid_token" in response.auth_bytes

    await _many(count, work)


async def largest_chains(doors: Doors, count: int) -> None:
    """Client certificates with chains of up to, and over, what the broker and OpenSSL take (16 and 100 KiB)."""
    contexts = [chain_context(doors.authority, certificates) for certificates in (8, 80, 1_600)]

    async def work(number: int) -> None:
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with await Raw.connect(doors.at("MTLS"), WAIT_S, ssl=contexts[number % len(contexts)]) as raw:
                await raw.ask(ApiKey.METADATA, 12, METADATA)

    await _many(count, work)


def chain_context(authority: Authority, certificates: int) -> ssl.SSLContext:
    """Return what a client uses that shows so many certificates besides its own."""
    issued = authority.ca.issue_cert("stranger@example.com")
    key, own = issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes()
    padding = [_padded(authority, number) for number in range(8)]
    path = authority.folder / f"chain-{certificates}.pem"
    path.write_bytes(key + own + b"".join(padding[number % 8] for number in range(certificates)))
    context = ssl.create_default_context(cadata=authority.text)
    context.load_cert_chain(path)
    return context


def _padded(authority: Authority, number: int) -> bytes:
    """A certificate of an authority that there is not, with a kilobyte of names."""
    from datetime import UTC, datetime, timedelta

    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"authority {number}")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), number + 1, now, now + timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.DNSName("a" * 60 + f".{each}.example") for each in range(12)])
    return builder.add_extension(names, critical=False).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


async def renegotiations(doors: Doors, count: int) -> None:
    """Clients of TLS 1.2 that ask for a new handshake in the middle: it is refused."""
    command = ["openssl", "s_client", "-tls1_2", "-connect", doors.at("TLS"), "-CAfile", str(doors.authority.path)]

    async def work(_: int) -> None:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        # A line with an R has openssl ask for a handshake.
        said, _nothing = await asyncio.wait_for(process.communicate(b"R\n"), WAIT_S)
        assert b"RENEGOTIATING" in said and b"no renegotiation" in said, said[-2000:]

    for number in range(count):
        await work(number)


async def acl_names(doors: Doors, count: int) -> None:
    """ACLs with the longest names: refused from the bound of all their characters on."""
    async with await Raw.connect(doors.at("PLAINTEXT"), WAIT_S) as raw:
        codes: set[int] = set()
        for start in range(0, 40 * count, 40):
            request = CreateAclsRequest([_acl("n" * 32_500 + str(number)) for number in range(start, start + 40)])
            codes |= {each.error_code for each in (await raw.ask(ApiKey.CREATE_ACLS, 3, request)).results}
    assert codes == ({0} if count * 40 * 32_500 < 8_000_000 else {0, POLICY_VIOLATION})


async def many_acls(doors: Doors, count: int) -> None:
    """A hundred thousand ACLs: refused from the bound on."""
    async with await Raw.connect(doors.at("PLAINTEXT"), WAIT_S) as raw:
        codes: list[int] = []
        for start in range(0, count, 5_000):
            request = CreateAclsRequest([_acl(f"topic-{number}") for number in range(start, start + 5_000)])
            codes += [each.error_code for each in (await raw.ask(ApiKey.CREATE_ACLS, 3, request)).results]
    assert set(codes) == ({0} if count <= 20_000 else {0, POLICY_VIOLATION}) and codes.count(0) <= 20_000


def _acl(name: str) -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=name,
        resource_pattern_type=3,
        principal=f"User:{USER}",
        host="*",
        operation=3,
        permission_type=3,
    )


async def client_ids(doors: Doors, count: int) -> None:
    """A client id that nobody has used before with each request, where every client id has a quota."""
    async with await Raw.connect(doors.at("PLAINTEXT"), WAIT_S) as raw:
        entity = [EntityData("client-id", None)]
        quotas = [OpData(name, 1e12, False) for name in ("producer_byte_rate", "consumer_byte_rate")]
        quotas.append(OpData("request_percentage", 1e9, False))
        answer = await raw.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([EntryData(entity, quotas)]))
        assert answer.entries[0].error_code == 0
        for start in range(0, count, 100):
            for number in range(start, start + 100):
                raw.send(ApiKey.METADATA, 12, METADATA, f"client-{number}-{'x' * 200}")
            for _ in range(100):
                await raw.receive_bytes()


# Each attack, how often it is done in the suite, and in `make soak`.
ATTACKS: dict[str, tuple[Attack, int, int]] = {
    each.__name__: (each, few, many)
    for each, few, many in (
        (half_handshakes, 200, 20_000),
        (one_byte_at_a_time, 20, 2_000),
        (half_logins, 450, 3_000),
        (bearer_tokens, 250, 20_000),
        (wrong_proofs, 200, 100_000),
        (huge_messages, 48, 4_000),
        (largest_chains, 15, 3_000),
        (renegotiations, 2, 50),
        (acl_names, 8, 20),
        (many_acls, 25_000, 100_000),
        (client_ids, 3_000, 1_000_000),
    )
}
