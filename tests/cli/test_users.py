"""`odradek users`, and `odradek serve --secure`: a first start to a client that has logged in."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.broker.configs.properties import load
from odradek.broker.security.authority import Authority
from odradek.cli.secure_start import _addresses as machine_addresses
from odradek.client import Acl, Admin, NewTopic, ScramPassword
from odradek.client.core.security import security_arguments
from odradek.client.errors import KafkaError
from odradek.tests.support.brokers.process import BrokerProcess, free_port
from odradek.tests.support.documents.command import rows, run


def test_a_password_is_set_listed_and_deleted(address: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    assert run("users", "set", "alice", "--password-file", tmp_path / "password").exit_code == 0
    assert run("users", "set", "bob", "--password-file", "-", "--mechanism", "SCRAM-SHA-256", stdin=b"b").exit_code == 0
    assert rows("users", "list") == [["alice", "SCRAM-SHA-512", "4096"], ["bob", "SCRAM-SHA-256", "4096"]]
    assert run("users", "delete", "alice").exit_code == 0
    gone = run("users", "delete", "alice")
    assert (gone.exit_code, gone.stderr.count("\n")) == (1, 1)
    assert "does not exist" in gone.stderr
    assert rows("users", "list") == [["bob", "SCRAM-SHA-256", "4096"]]


@pytest.mark.parametrize("stdin", [b"", b"\n"])
def test_an_empty_password_is_refused(address: str, stdin: bytes) -> None:
    ended = run("users", "set", "alice", "--password-file", "-", stdin=stdin)
    assert ended.exit_code == 1 and "is empty" in ended.stderr


class Secure(BrokerProcess):
    """`odradek serve --secure`."""

    def command(self) -> list[str]:
        serve = ["serve", "--secure", "--listen", self.address, "--data-dir", str(self.data_dir)]
        return [sys.executable, "-m", "odradek.broker", *serve]


async def names(configs: dict[str, str]) -> set[str]:
    async with Admin(
        configs["bootstrap.servers"], default_api_timeout_ms=5_000, **security_arguments(configs)
    ) as admin:
        return set(await admin.list_topics())


async def test_a_secure_broker_lets_its_first_user_in_also_after_a_restart(tmp_path: Path) -> None:
    broker = Secure(tmp_path)
    broker.address = f"127.0.0.1:{free_port()}"
    folder = Path(f"{broker.data_dir}.secure")
    try:
        broker.start()
        configs = load(folder / "client.properties")
        assert await names(configs) == set()
        with pytest.raises(KafkaError):
            await names({"bootstrap.servers": configs["bootstrap.servers"]})
        said = (await asyncio.to_thread(run, "topics", "list", "-b", broker.address)).stderr
        assert said.count(broker.address) == 1 and "set security.protocol to" in said
        with pytest.raises(KafkaError, match=r"invalid credentials|does not know"):
            await names(configs | {"sasl.jaas.config": configs["sasl.jaas.config"].replace('d="', 'd="x')})
        broker.stop()
        broker.start()
        assert await names(configs) == set()
        password = load(folder / "librdkafka.properties")["sasl.password"]
        secrets = ("ca.key", "broker.pem", "client.properties", "librdkafka.properties")
        assert [(folder / name).stat().st_mode & 0o777 for name in secrets] == [0o600] * 4
        assert password not in broker.log.read_text()
        assert "PLAINTEXT" not in broker.log.read_text()  # the broker that made the user
        kept = b"".join(each.read_bytes() for each in broker.data_dir.rglob("*") if each.is_file())
        assert password.encode() not in kept
    finally:
        broker.close()


async def test_it_can_be_reached_at_each_address_of_the_machine(tmp_path: Path) -> None:
    """Clients are told the address at which they have connected, and the certificate has to name it."""
    broker, port = Secure(tmp_path), free_port()
    broker.address = f"0.0.0.0:{port}"
    folder = Path(f"{broker.data_dir}.secure")
    try:
        broker.start()
        configs = load(folder / "client.properties")
        found = machine_addresses() | {"127.0.0.1"}
        for each in found:
            if ":" not in each:
                assert await names(configs | {"bootstrap.servers": f"{each}:{port}"}) == set()
        shown = rows("certs", "show", folder / "broker.pem")[0][2].split(",")
        assert found <= set(shown)
    finally:
        broker.close()


def test_a_data_directory_that_a_password_prepared_is_that_of_the_first_broker_to_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for user in ("alice", "bob"):
        run("users", "set", user, "--password-file", "-", "--data-dir", data, stdin=b"secret")
    broker = BrokerProcess(tmp_path, node_id=7)
    broker.start()
    try:
        assert [each[0] for each in rows("users", "list", "--bootstrap-server", broker.address)] == ["alice", "bob"]
        assert "node.id=7" in (data / "meta.properties").read_text()
    finally:
        broker.close()
    run("users", "set", "carol", "--password-file", "-", "--data-dir", data, stdin=b"secret")
    other = subprocess.run(BrokerProcess(tmp_path, node_id=8).command(), capture_output=True, text=True, timeout=30)
    assert other.returncode == 1 and "belongs to node 7" in other.stderr


async def test_another_user_of_a_secure_broker_sees_what_acls_allow(tmp_path: Path) -> None:
    broker = Secure(tmp_path)
    broker.address = f"127.0.0.1:{free_port()}"
    try:
        broker.start()
        configs = load(Path(f"{broker.data_dir}.secure") / "client.properties")
        login = configs["sasl.jaas.config"].partition("username=")[0]
        bobs = configs | {"sasl.jaas.config": f'{login}username="bob" password="b0b";'}
        async with Admin(configs["bootstrap.servers"], **security_arguments(configs)) as admin:
            await admin.create_topics([NewTopic("t")])
            await admin.alter_user_scram_credentials(ScramPassword("bob", password="b0b"))
            assert await names(bobs) == set()
            await admin.create_acls(Acl("User:bob", "describe", "topic", "t"))
            assert await names(bobs) == {"t"}
    finally:
        broker.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "listeners=SSL://127.0.0.1:0"), "--listen HOST:PORT"),
        (("--set", "ssl.keystore.location=x"), "leave one of the two out"),
        (("--data-dir", "/dev/null/x"), "cannot be used"),
        (("--http", "0.0.0.0:0"), "names of topics and groups"),
        (("--set", "http.listener=[::]:0"), "names of topics and groups"),
    ],
)
def test_what_secure_cannot_do_is_refused(arguments: tuple[str, ...], said: str) -> None:
    ended = run("serve", "--secure", *arguments)
    assert ended.exit_code in (1, 2) and said in ended.stderr


def test_the_authority_is_kept_and_a_certificate_with_other_names_is_made_again(tmp_path: Path) -> None:
    store = tmp_path / "broker.pem"
    Authority.open(tmp_path).keep_certificate(store, ["localhost", "10.0.0.1"])
    first, authority = store.read_bytes(), (tmp_path / "ca.pem").read_bytes()
    Authority.open(tmp_path).keep_certificate(store, ["10.0.0.1"])
    assert store.read_bytes() == first
    Authority.open(tmp_path).keep_certificate(store, ["example.org"])
    assert store.read_bytes() != first
    assert (tmp_path / "ca.pem").read_bytes() == authority
    shown = subprocess.run(
        ["openssl", "verify", "-CAfile", tmp_path / "ca.pem", store], capture_output=True, check=False
    )
    assert shown.returncode == 0, shown
