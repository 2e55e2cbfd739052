"""TLS listeners: who gets in, who is told what, and certificates that change while clients are connected."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.definition import ConfigError
from odradek.broker.configs.listener_config import ListenerConfig
from odradek.broker.log_dirs.data_dir import StartError
from odradek.broker.network import tls_door
from odradek.broker.security import listener_tls, tls
from odradek.broker.security.principals import ANONYMOUS, user
from odradek.broker.timers import TimerHandle, Timers
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.tests.support.brokers.connections import acceptor, connections
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.security.tls import Authority, connect, pem_of, tls_config
from odradek.tests.support.waiting import WITHIN_S

METADATA = MetadataRequest(topics=[])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls_address(broker: Broker) -> str:
    return broker.addresses[1]


def hello(authority: Authority) -> bytes:
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        authority.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


async def certificate_of(broker: Broker, context: ssl.SSLContext) -> bytes:
    """The certificate that a new client of the TLS listener is shown."""
    host, _, port = tls_address(broker).rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()


async def alter(raw: Raw, broker: Broker, **configs: str | None) -> tuple[int, str | None]:
    """Set configs of the listener TLS, by names with `_` for `.`."""
    changes = [
        AlterableConfig(f"listener.name.tls.{name.replace('_', '.')}", 1 if value is None else 0, value)
        for name, value in configs.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, str(broker.node_id), changes)])
    result = (await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0]
    return result.error_code, result.error_message


async def test_records_of_any_size_come_through(config: BrokerConfig, authority: Authority) -> None:
    async with Broker(tls_config(config, authority, message_max_bytes=8 << 20)) as broker:
        async with await connect(tls_address(broker), authority.context()) as raw:
            await raw.create_topic("t")
            for value in (b"x", os.urandom(100_000), os.urandom(5_000_000)):
                assert (await raw.produce("t", batch_of(value))).error_code == 0
            fetched = await raw.fetch("t", 2, partition_max_bytes=8 << 20, max_bytes=8 << 20)
            assert len(fetched.records) > 5_000_000
            assert connections(broker)[0].principal == ANONYMOUS


@pytest.mark.parametrize("key", ["PKCS#8", "PKCS#1", "encrypted"])
async def test_a_key_may_be_given_inline_in_each_form(config: BrokerConfig, authority: Authority, key: str) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    leaf = authority.ca.issue_cert("127.0.0.1")
    private = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    form = PrivateFormat.TraditionalOpenSSL if key == "PKCS#1" else PrivateFormat.PKCS8
    encryption = BestAvailableEncryption(b"secret") if key == "encrypted" else NoEncryption()
    inline = {
        "ssl_keystore_location": None,
        "ssl_keystore_key": private.private_bytes(Encoding.PEM, form, encryption).decode(),
        "ssl_keystore_certificate_chain": b"".join(each.bytes() for each in leaf.cert_chain_pems).decode(),
        "ssl_key_password": "secret" if key == "encrypted" else None,
    }
    made = tls_config(config, authority, **inline)
    assert "PRIVATE KEY" not in repr(made) and "secret" not in repr(made)
    async with Broker(made) as broker, await connect(tls_address(broker), authority.context()) as raw:
        assert (await raw.ask(ApiKey.METADATA, 12, METADATA)).brokers


async def test_a_client_certificate_says_who_the_client_is(config: BrokerConfig, authority: Authority) -> None:
    rules = r"RULE:.*OU=([^,]+),O=trustme.*/$1-user/L,DEFAULT"
    needed = tls_config(config, authority, ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    alice = authority.ca.issue_cert("alice@example.com", organization_unit_name="Alice")
    async with Broker(needed) as broker:
        async with await connect(tls_address(broker), authority.context(alice)) as raw:
            await raw.ask(ApiKey.METADATA, 12, METADATA)
            assert connections(broker)[0].principal == user("alice-user")
        with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)):
            async with await connect(tls_address(broker), authority.context()) as raw:
                await raw.ask(ApiKey.METADATA, 12, METADATA)


async def test_a_requested_certificate_may_be_left_out(config: BrokerConfig, authority: Authority) -> None:
    inline = {"ssl_truststore_location": None, "ssl_truststore_certificates": authority.text}
    async with Broker(tls_config(config, authority, ssl_client_auth="requested", **inline)) as broker:
        async with await connect(tls_address(broker), authority.context()) as raw:
            await raw.ask(ApiKey.METADATA, 12, METADATA)
            assert connections(broker)[0].principal == ANONYMOUS


async def test_a_client_whose_name_no_rule_maps_is_closed(
    config: BrokerConfig, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    strict = tls_config(
        config, authority, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:CN=nobody/nobody/"
    )
    alice = authority.ca.issue_cert("alice@example.com")
    async with Broker(strict) as broker:
        async with await connect(tls_address(broker), authority.context(alice)) as raw:
            assert await raw.is_closed()
    assert "no rule of ssl.principal.mapping.rules matches" in caplog.text


@pytest.mark.parametrize(
    ("configs", "version", "cipher"),
    [
        ({"ssl_enabled_protocols": ("TLSv1.2",)}, "TLSv1.2", ""),
        ({"ssl_enabled_protocols": ("TLSv1.3",)}, "TLSv1.3", ""),
        (
            {"ssl_cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",)},
            "TLSv1.2",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
    ],
)
async def test_versions_and_ciphers_are_those_of_the_configs(
    config: BrokerConfig, authority: Authority, configs: dict[str, Any], version: str, cipher: str
) -> None:
    async with Broker(tls_config(config, authority, **configs)) as broker:
        host, _, port = tls_address(broker).rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=authority.context())
        agreed = writer.get_extra_info("ssl_object")
        assert agreed.version() == version
        assert cipher in agreed.cipher()[0]
        writer.transport.abort()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\0\0\0\x10\0\x12\0\x03", "a Kafka request without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\xff\xff\xff\xff", "bytes that begin with ffffffff"),
    ],
)
async def test_a_client_without_tls_gets_an_alert_and_the_log_says_what_it_speaks(
    config: BrokerConfig, authority: Authority, caplog: pytest.LogCaptureFixture, sent: bytes, said: str
) -> None:
    async with Broker(tls_config(config, authority)) as broker:
        host, _, port = tls_address(broker).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        assert await reader.readexactly(7) == bytes.fromhex("15030300020250")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
    assert f"{said} on listener TLS, which speaks TLS" in caplog.text


async def test_a_tls_client_of_a_plain_listener_is_named_in_the_log(
    broker: Broker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OSError):
        await connect(broker.address, authority.context())
    assert "a TLS handshake? listener PLAINTEXT speaks PLAINTEXT" in caplog.text


async def test_a_hello_that_comes_one_byte_at_a_time_is_served(config: BrokerConfig, authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    async with Broker(tls_config(config, authority)) as broker:
        host, _, port = tls_address(broker).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for byte in outgoing.read():
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        while True:
            incoming.write(await asyncio.wait_for(reader.read(65536), 10))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
        writer.close()


async def test_a_silent_client_is_closed_in_time(
    config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_door, "HANDSHAKE_MS", 1)
    async with Broker(tls_config(config, authority)) as broker:
        async with await Raw.connect(tls_address(broker)) as raw:
            assert await raw.is_closed()
    assert "no TLS handshake in 1 ms" in caplog.text


async def test_the_door_looks_less_and_less_often_for_the_rest_of_a_hello(
    config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bytes] = []
    monkeypatch.setattr(tls_door, "HANDSHAKE_MS", 200)
    monkeypatch.setattr(tls_door, "_LOOK_AGAIN_MS", 1)
    monkeypatch.setattr(tls_door, "record_bytes", looks.append)
    async with Broker(tls_config(config, authority)) as broker, await Raw.connect(tls_address(broker)) as raw:
        raw.send_bytes(b"\x16")
        assert await raw.is_closed()
    assert 1 < len(looks) <= 9


async def test_clients_that_wait_for_a_handshake_share_one_timer(
    config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient_ms, delays_ms, looks = 10**9, list[int](), list[bytes]()
    after, record_bytes = Timers.after, tls_door.record_bytes

    def noted(timers: Timers, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        delays_ms.append(delay_ms)
        return after(timers, delay_ms, callback)

    def looked(head: bytes) -> int | None:
        looks.append(head)
        return record_bytes(head)

    monkeypatch.setattr(Timers, "after", noted)
    monkeypatch.setattr(tls_door, "record_bytes", looked)
    monkeypatch.setattr(tls_door, "MAX_HANDSHAKES", 1)
    monkeypatch.setattr(tls_door, "PATIENCE_MS", patient_ms)
    async with Broker(tls_config(config, authority)) as broker:
        clients = [await Raw.connect(tls_address(broker)) for _ in range(5)]
        for number, each in enumerate(clients, 1):
            each.send_bytes(hello(authority))
            async with asyncio.timeout(10):
                while len(looks) < number:
                    await asyncio.sleep(0)
        for each in clients:
            each.close()
    assert sum(patient_ms // 2 < delay_ms <= patient_ms for delay_ms in delays_ms) == 1


async def test_a_connection_counts_for_the_limits_before_its_handshake(
    config: BrokerConfig, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(tls_config(config, authority, max_connections_per_ip=1)) as broker:
        async with await Raw.connect(tls_address(broker)):
            async with await Raw.connect(tls_address(broker)) as second:
                assert await second.is_closed()
        async with asyncio.timeout(10):
            while True:  # until the first one has left
                with contextlib.suppress(OSError):
                    async with await connect(tls_address(broker), authority.context()) as raw:
                        assert (await raw.ask(ApiKey.METADATA, 12, METADATA)).brokers
                    break
    assert "refused: max.connections.per.ip is 1" in caplog.text


async def test_many_handshakes_take_turns_and_the_oldest_yields(
    config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_door, "MAX_HANDSHAKES", 2)
    monkeypatch.setattr(tls_door, "PATIENCE_MS", 0)
    async with Broker(tls_config(config, authority)) as broker:
        stuck = [await Raw.connect(tls_address(broker)) for _ in range(3)]
        for each in stuck:
            each.send_bytes(hello(authority))
        async with await connect(tls_address(broker), authority.context()) as raw:
            assert (await raw.ask(ApiKey.METADATA, 12, METADATA)).brokers
        for each in stuck:
            each.close()


async def test_a_stop_ends_half_handshakes(config: BrokerConfig, authority: Authority) -> None:
    async with Broker(tls_config(config, authority)) as broker:
        half = await Raw.connect(tls_address(broker))
        half.send_bytes(b"\x16\x03\x01\x02\x00\x01")
        async with await connect(tls_address(broker), authority.context()) as raw:
            await raw.ask(ApiKey.METADATA, 12, METADATA)
    assert await half.is_closed()
    half.close()


class TestStart:
    # It depends on no loop.
    @pytest.mark.asyncio(loop_factories=["uvloop"])
    @pytest.mark.parametrize(
        ("configs", "said"),
        [
            ({"ssl_keystore_location": None}, "needs a certificate"),
            ({"ssl_keystore_type": "JKS"}, "keytool -importkeystore"),
            ({"ssl_keystore_type": "PKCS12"}, "openssl pkcs12 -in"),
            ({"ssl_keystore_location": "/nowhere.pem"}, "/nowhere.pem: no such file"),
            ({"ssl_keystore_password": "hunter2"}, "only ssl.key.password"),
            (
                {
                    "ssl_truststore_location": None,
                    "ssl_truststore_certificates": "-----BEGIN CERTIFICATE-----\n\xe9\n-----END CERTIFICATE-----",
                },
                "has letters that PEM does not have",
            ),
            ({"ssl_truststore_type": "JKS"}, "keytool -importkeystore"),
            ({"ssl_truststore_password": "hunter2"}, "cannot be used with PEM"),
            ({"ssl_keystore_key": "k"}, "exclude each other"),
            ({"ssl_cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "cannot be chosen alone"),
            ({"ssl_cipher_suites": ("TLS_NONSENSE",)}, "is not a cipher suite"),
            ({"ssl_principal_mapping_rules": "RULE:[/x/"}, "no regular expression"),
        ],
    )
    async def test_what_cannot_work_is_refused_in_one_line(
        self, config: BrokerConfig, authority: Authority, configs: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(StartError) as caught:
            await Broker(tls_config(config, authority, **configs)).start()
        assert said in str(caught.value)
        assert str(caught.value).startswith("listener TLS: ")
        assert "\n" not in str(caught.value) and "hunter2" not in str(caught.value)

    async def test_a_key_of_another_certificate_is_refused(self, config: BrokerConfig, authority: Authority) -> None:
        one, other = (authority.ca.issue_cert("127.0.0.1") for _ in range(2))
        store = authority.folder / "mixed.pem"
        store.write_bytes(one.private_key_pem.bytes() + other.cert_chain_pems[0].bytes())
        with pytest.raises(StartError, match="does not belong to the first certificate"):
            await Broker(tls_config(config, authority, ssl_keystore_location=str(store))).start()

    @pytest.mark.parametrize(
        ("password", "said"),
        [("wrong", r"set ssl\.key\.password"), ("wrong" * 400, r"ssl\.key\.password: password cannot be longer")],
        ids=["wrong", "too long"],
    )
    async def test_an_encrypted_key_without_its_password_is_refused(
        self, config: BrokerConfig, authority: Authority, password: str, said: str
    ) -> None:
        from cryptography.hazmat.primitives import serialization as pem

        leaf = authority.ca.issue_cert("127.0.0.1")
        key = pem.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        encrypted = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"secret"))
        store = authority.folder / "encrypted.pem"
        store.write_bytes(encrypted + leaf.cert_chain_pems[0].bytes())
        made = tls_config(config, authority, ssl_keystore_location=str(store), ssl_key_password=password)
        with pytest.raises(StartError, match=said):
            await Broker(made).start()

    def test_a_misspelt_config_of_a_listener_is_an_error(self) -> None:
        texts = {"listeners": "SSL://h:1", "listener.name.ssl.ssl.client.auht": "required"}
        with pytest.raises(ConfigError, match=r"did you mean ssl\.client\.auth"):
            BrokerConfig.parse(texts)

    def test_a_listeners_own_value_is_before_the_brokers(self) -> None:
        config, warnings = BrokerConfig.parse(
            {
                "listeners": "ONE://h:1,TWO://h:2,THREE://h:3",
                "listener.security.protocol.map": "ONE:SSL,TWO:SSL,THREE:SASL_SSL",
                "ssl.client.auth": "required",
                "listener.name.two.ssl.client.auth": "none",
            }
        )
        assert [config.of_listener(name).ssl_client_auth for name in ("ONE", "TWO", "THREE")] == [
            "required",
            "none",
            "none",
        ]
        assert not warnings


class TestReload:
    async def test_a_file_that_has_changed_is_used_by_later_connections(
        self, config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listener_tls, "CHECK_MS", 0)
        async with Broker(tls_config(config, authority)) as broker:
            before = await certificate_of(broker, authority.context())
            async with await connect(tls_address(broker), authority.context()) as raw:
                authority.store()
                assert await certificate_of(broker, authority.context()) != before
                assert (await raw.ask(ApiKey.METADATA, 12, METADATA)).brokers

    async def test_a_bad_file_leaves_the_certificate_of_before(
        self,
        config: BrokerConfig,
        authority: Authority,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(listener_tls, "CHECK_MS", 0)
        async with Broker(tls_config(config, authority)) as broker:
            before = await certificate_of(broker, authority.context())
            (authority.folder / "broker.pem").write_text("nonsense")
            for _ in range(2):
                assert await certificate_of(broker, authority.context()) == before
        assert caplog.text.count("new connections use the certificate of before") == 1

    async def test_a_file_that_was_half_written_is_read_again(
        self, config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        load = tls.load

        def while_it_is_written(config: ListenerConfig) -> tls.Loaded:
            try:
                return load(config)
            finally:
                monkeypatch.setattr(tls, "load", load)
                authority.store()

        monkeypatch.setattr(listener_tls, "CHECK_MS", 0)
        async with Broker(tls_config(config, authority)) as broker:
            before = await certificate_of(broker, authority.context())
            monkeypatch.setattr(tls, "load", while_it_is_written)
            (authority.folder / "broker.pem").write_text("half a file")
            assert await certificate_of(broker, authority.context()) == before
            assert await certificate_of(broker, authority.context()) != before

    async def test_a_disk_that_hangs_keeps_nobody_out(
        self, config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        goes_on = threading.Event()
        stamp = tls.stamp

        def hang(config: ListenerConfig) -> tuple[tls.Stamp | None, ...]:
            assert goes_on.wait(WITHIN_S)
            return stamp(config)

        monkeypatch.setattr(listener_tls, "CHECK_MS", 0)
        monkeypatch.setattr(listener_tls, "MAX_WAIT_MS", 1)
        async with Broker(tls_config(config, authority)) as broker:
            monkeypatch.setattr(tls, "stamp", hang)
            try:
                for _ in range(3):
                    await certificate_of(broker, authority.context())
            finally:
                goes_on.set()

    async def test_a_disk_that_hangs_holds_up_neither_the_loop_nor_the_order_of_changes(
        self, config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        goes_on, began, load = threading.Event(), threading.Event(), tls.load
        first, second = str(authority.folder / "broker.pem"), str(authority.folder / "second.pem")
        authority.store("second.pem")

        def hang(config: ListenerConfig) -> tls.Loaded:
            began.set()
            assert goes_on.wait(WITHIN_S)
            return load(config)

        async with (
            Broker(tls_config(config, authority)) as broker,
            await Raw.connect(broker.address) as one,
            await Raw.connect(broker.address) as two,
            await Raw.connect(broker.address) as other,
        ):
            authority.store()
            renewed = (await asyncio.to_thread(Path(first).read_text)).replace("\n", "")
            monkeypatch.setattr(tls, "load", hang)
            try:
                changes = [asyncio.ensure_future(alter(one, broker, ssl_keystore_location=second))]
                assert await asyncio.to_thread(began.wait, 60)
                changes.append(asyncio.ensure_future(alter(two, broker, ssl_keystore_location=first)))
                # Others are served meanwhile, with the certificate of before.
                assert (await other.ask(ApiKey.METADATA, 12, METADATA)).brokers
                await certificate_of(broker, authority.context())
                assert not any(each.done() for each in changes)
            finally:
                goes_on.set()
            assert await asyncio.gather(*changes) == [(0, None)] * 2
            assert broker.services.reconfiguration.overrides(str(broker.node_id)) == {
                "listener.name.tls.ssl.keystore.location": first
            }
            shown = ssl.DER_cert_to_PEM_cert(await certificate_of(broker, authority.context()))
            assert shown.replace("\n", "") in renewed

    async def test_a_store_that_cannot_be_used_changes_nothing(
        self, config: BrokerConfig, authority: Authority
    ) -> None:
        bad = authority.folder / "bad.pem"
        bad.write_text("nonsense")
        async with Broker(tls_config(config, authority)) as broker, await Raw.connect(broker.address) as raw:
            before = await certificate_of(broker, authority.context())
            code, why = await alter(raw, broker, ssl_keystore_location=str(bad))
            assert code == 42 and why is not None
            assert why.startswith(f"Validation of dynamic config update of SSLFactory failed: {bad}")
            assert not broker.services.reconfiguration.overrides(str(broker.node_id))
            assert await certificate_of(broker, authority.context()) == before

    async def test_the_same_path_again_reads_the_file_again(self, config: BrokerConfig, authority: Authority) -> None:
        path = str(authority.folder / "broker.pem")
        async with Broker(tls_config(config, authority)) as broker, await Raw.connect(broker.address) as raw:
            assert await alter(raw, broker, ssl_keystore_location=path) == (0, None)
            before = await certificate_of(broker, authority.context())
            authority.store()
            assert await alter(raw, broker, ssl_keystore_location=path) == (0, None)
            assert await certificate_of(broker, authority.context()) != before

    async def test_a_certificate_that_lacks_a_name_is_rejected_unless_that_is_allowed(
        self, config: BrokerConfig, authority: Authority
    ) -> None:
        less = str(authority.store("less.pem", "127.0.0.1"))
        async with Broker(tls_config(config, authority)) as broker, await Raw.connect(broker.address) as raw:
            code, why = await alter(raw, broker, ssl_keystore_location=less)
            assert code == 42 and why is not None
            assert why.startswith("Validation of dynamic config update of SSLFactory failed:")
            await certificate_of(broker, authority.context())
        allowed = tls_config(config, authority, ssl_allow_san_changes=True, ssl_allow_dn_changes=True)
        async with Broker(allowed) as broker, await Raw.connect(broker.address) as raw:
            assert await alter(raw, broker, ssl_keystore_location=less) == (0, None)

    async def test_a_restart_uses_what_was_altered_and_passwords_are_never_shown(
        self, config: BrokerConfig, authority: Authority
    ) -> None:
        key = pem_of(authority.ca.issue_cert("localhost", "127.0.0.1"))
        made = tls_config(config, authority, ssl_allow_dn_changes=True)
        async with Broker(made) as broker, await Raw.connect(broker.address) as raw:
            other = str(authority.store("other.pem"))
            assert await alter(raw, broker, ssl_keystore_location=other, ssl_key_password="hunter2") == (0, None)
            after = await certificate_of(broker, authority.context())
        async with Broker(made) as broker, await Raw.connect(broker.address) as raw:
            assert await certificate_of(broker, authority.context()) == after
            asked = DescribeConfigsRequest([DescribeConfigsResource(4, str(broker.node_id), None)], True, True)
            described = await raw.ask(ApiKey.DESCRIBE_CONFIGS, 4, asked)
            assert "hunter2" not in repr(described)
            found = {each.name: each for each in described.results[0].configs}
            assert found["listener.name.tls.ssl.keystore.location"].value == other
            assert found["listener.name.tls.ssl.key.password"].is_sensitive
            code, why = await alter(raw, broker, ssl_keystore_key=key)
            assert code == 42 and "PRIVATE KEY" not in (why or "")

    @pytest.mark.parametrize("name", ["ssl.client.auth", "ssl.enabled.protocols"])
    async def test_what_only_a_start_can_change_is_rejected(
        self, config: BrokerConfig, authority: Authority, name: str
    ) -> None:
        async with Broker(tls_config(config, authority)) as broker, await Raw.connect(broker.address) as raw:
            code, why = await alter(raw, broker, **{name.replace(".", "_"): "required"})
            assert code == 42 and "Cannot update these configs dynamically" in (why or "")


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


async def test_the_number_of_sockets_is_that_of_before_after_many_strangers(
    config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_door, "HANDSHAKE_MS", 2_000)
    async with Broker(tls_config(config, authority)) as broker:
        host, _, port = tls_address(broker).rpartition(":")
        before = descriptors()
        for _ in range(200):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(b"\x16\x03\x01")
            await asyncio.sleep(0)
        async with await connect(tls_address(broker), authority.context()) as raw:
            await raw.ask(ApiKey.METADATA, 12, METADATA)
        async with asyncio.timeout(10):
            while acceptor(broker).has_arrivals:
                await asyncio.sleep(0.01)
        after = descriptors()
        assert after <= before + 2
