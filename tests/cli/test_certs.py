"""`odradek certs`: an authority, certificates of brokers and clients, and what a file or a listener shows."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.cli.errors import CliError
from odradek.cli.secure_start import secure_texts
from odradek.client.blocking import Admin, Producer
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.documents.command import rows, run
from odradek.tests.support.security.tls import Authority, tls_config

pytest.importorskip("cryptography", reason="certs makes certificates (extra `certs`)")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `certs` with an authority, a broker for localhost and 127.0.0.1, and the client alice."""
    monkeypatch.chdir(tmp_path)
    for words in (("ca", "--name", "Team"), ("server", "localhost", "127.0.0.1"), ("client", "alice", "--days", "30")):
        assert run("certs", *words).exit_code == 0
    return tmp_path / "certs"


def broker_with(folder: Path, data_dir: Path, **configs: Any) -> Broker:
    """A broker whose listener TLS shows the certificate for localhost."""
    return Broker(
        BrokerConfig(
            listeners=("PLAINTEXT://127.0.0.1:0", "TLS://127.0.0.1:0"),
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,TLS:SSL",
            log_dirs=(str(data_dir),),
            ssl_keystore_type="PEM",
            ssl_keystore_location=str(folder / "localhost.pem"),
            ssl_truststore_type="PEM",
            ssl_truststore_location=str(folder / "ca.pem"),
            **configs,
        )
    )


@pytest.fixture
def broker(folder: Path, tmp_path: Path) -> Iterator[Broker]:
    with broker_with(folder, tmp_path / "data") as running:
        yield running


@pytest.fixture
def strict(folder: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker that asks for a client certificate."""
    with broker_with(folder, tmp_path / "data", ssl_client_auth="required") as running:
        yield running


def shown(*words: str | Path) -> list[dict[str, Any]]:
    result = run("certs", "show", *words, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def failure(*words: str | Path) -> str:
    result = run("certs", *words)
    assert result.exit_code == 1 and result.stderr.splitlines()[-1].startswith("odradek: "), result.output
    return result.stderr


def test_only_the_owner_reads_keys_and_nothing_is_replaced(folder: Path) -> None:
    modes = {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
    assert modes == {"ca.key": 0o600, "ca.pem": 0o644, "localhost.pem": 0o600, "alice.pem": 0o600}
    before = {each: each.read_bytes() for each in folder.iterdir()}
    for words in (("ca",), ("server", "localhost"), ("client", "alice")):
        assert "is there already, and nothing is replaced" in failure(*words)
    assert before == {each: each.read_bytes() for each in folder.iterdir()}


def test_of_two_that_write_the_same_file_one_wins_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.broker.security import authority

    link = os.link

    def other_comes(*paths: Path) -> None:
        link(*paths)
        monkeypatch.setattr(os, "link", link)
        with pytest.raises(FileExistsError):
            authority.write_new_secret(tmp_path / "ca.key", b"other")

    monkeypatch.setattr(os, "link", other_comes)
    authority.write_new_secret(tmp_path / "ca.key", b"one")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("ca.key", b"one")]


@pytest.mark.parametrize("has_names", [True, False])
def test_a_secure_start_takes_an_authority_that_ends_soon(folder: Path, has_names: bool) -> None:
    made = Path("data.secure")
    assert run("certs", "ca", "--days", "100", "--dir", made).exit_code == 0
    if not has_names:  # its certificate has none, and is made again
        (made / "broker.pem").write_bytes((folder / "alice.pem").read_bytes())
    secure_texts({"log.dirs": "data"})
    assert shown(made / "broker.pem")[0]["names"]
    (made / "broker.pem").write_text("rubbish")
    with pytest.raises(CliError, match=r"data\.secure cannot be used"):
        secure_texts({"log.dirs": "data"})


def test_a_half_made_authority_is_not_replaced_either(folder: Path) -> None:
    (folder / "ca.pem").unlink()
    assert "ca.key is there already" in failure("ca")
    (folder / "ca.pem").write_text("")
    (folder / "ca.key").unlink()
    assert "ca.pem is there already" in failure("ca")
    assert "odradek certs ca --dir" in failure("client", "bob")


def test_a_key_of_another_authority_signs_nothing(folder: Path) -> None:
    assert run("certs", "ca", "--dir", "other").exit_code == 0
    (folder / "ca.key").write_bytes(Path("other/ca.key").read_bytes())
    assert "is not the key of" in failure("client", "bob")


def test_a_key_with_a_password_signs_for_those_who_know_it(folder: Path) -> None:
    Path("secret").write_text("of the team\n")
    Path("guess").write_text("guess\n")
    assert run("certs", "ca", "--dir", "team", "--ca-password-file", "secret").exit_code == 0
    assert "BEGIN ENCRYPTED PRIVATE KEY" in Path("team/ca.key").read_text()
    assert "ca.key is encrypted, and no password was given" in failure("client", "bob", "--dir", "team")
    guessed = failure("client", "bob", "--dir", "team", "--ca-password-file", "guess")
    assert "ca.key cannot be read with this password" in guessed
    assert "is not encrypted: give no password" in failure("server", "host", "--ca-password-file", "secret")
    words = ("client", "bob", "--dir", "team", "--ca-password-file", "-")
    assert run("certs", *words, stdin=b"of the team").exit_code == 0
    assert [each["trusted"] for each in shown("team/bob.pem", "--trust", "team/ca.pem")] == [True]


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a" * 65, "a\nb", "ca"])
def test_a_name_that_is_none_is_refused(folder: Path, name: str) -> None:
    assert "no certificate was made" in failure("client", name)
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize("host", ["", "a b", "a/b", "http://a", "a\nb"])
def test_a_host_that_is_none_is_refused(folder: Path, host: str) -> None:
    assert "is no host" in failure("server", "broker", host)
    assert len(list(folder.iterdir())) == 4


def test_a_certificate_does_not_outlive_its_authority(folder: Path) -> None:
    assert "ask for fewer days" in failure("server", "a", "--days", "4000")


def test_a_file_is_shown(folder: Path) -> None:
    (authority,) = shown(folder / "ca.pem")
    assert (authority["subject"], authority["issuer"]) == ("CN=Team", "CN=Team")
    (found,) = shown(folder / "localhost.pem", "--trust", folder / "ca.pem", "--utc")
    assert (found["subject"], found["issuer"], found["trusted"]) == ("CN=localhost", "CN=Team", True)
    assert found["names"] == ["localhost", "127.0.0.1"] and found["ends"].endswith("Z")
    assert rows("certs", "show", folder / "alice.pem", "--trust", folder / "ca.pem")[0][-1] == "yes"


def test_a_file_that_is_not_trusted_says_why(folder: Path) -> None:
    assert run("certs", "ca", "--dir", "other").exit_code == 0
    for name in ("localhost.pem", "alice.pem"):
        said = failure("show", folder / name, "--trust", "other/ca.pem")
        assert "unable to get local issuer certificate" in said and "CN=Team" in said
    assert "no private key" in failure("show", folder / "ca.pem", "--trust", "other/ca.pem")
    mixed = (folder / "alice.pem").read_text().partition("-----BEGIN CERT")[0] + (folder / "ca.pem").read_text()
    Path("mixed.pem").write_text(mixed)
    assert "does not belong" in failure("show", "mixed.pem")
    Path("store.jks").write_bytes(b"\xfe\xed\xfe\xed")
    assert "keytool -importkeystore" in failure("show", "store.jks")


def test_a_listener_is_shown(broker: Broker, folder: Path) -> None:
    address = broker.addresses[1].replace("127.0.0.1", "localhost")
    result = run("certs", "show", address, "--trust", folder / "ca.pem")
    assert result.exit_code == 0 and "TLSv1.3" in result.stderr and "ends a session" not in result.stderr
    assert result.stdout.startswith("CN=localhost\tCN=Team\tlocalhost,127.0.0.1\t")
    assert "if the listener speaks no TLS" in failure("show", broker.address)
    assert run("certs", "ca", "--dir", "other").exit_code == 0
    assert "other/ca.pem lacks the certificate of CN=Team" in failure("show", address, "--trust", "other/ca.pem")


def test_a_host_that_no_name_can_be_is_one_line() -> None:
    assert failure("show", "a..b:9093") == "odradek: a..b:9093 is no file, and its host is no name\n"


def test_a_listener_that_nobody_has_is_one_line() -> None:
    assert "cannot reach" in failure("show", f"127.0.0.1:{free_port()}")
    assert "no file, and no HOST:PORT" in failure("show", "host:port")
    assert "no such file" in failure("show", "missing.pem")


def test_a_name_that_the_certificate_lacks_is_told(folder: Path, tmp_path: Path, config: BrokerConfig) -> None:
    authority = Authority(tmp_path)
    told = tls_config(config, authority)
    with Broker(replace(told, ssl_keystore_location=str(authority.store("named.pem", "elsewhere.example")))) as broker:
        said = failure("show", broker.addresses[1], "--trust", authority.path)
    assert "ip address mismatch" in said


def test_a_client_certificate_that_was_made_lets_a_client_in(strict: Broker, folder: Path) -> None:
    address = strict.addresses[1]
    assert "ends a session without a client certificate" in run("certs", "show", address).stderr
    options: Any = {"security_protocol": "SSL", "ssl_cafile": str(folder / "ca.pem")}
    with Admin(address, ssl_certfile=str(folder / "alice.pem"), **options) as admin:
        admin.list_topics()
    # A broker of a cluster shows its own certificate to others.
    with Producer(address, ssl_certfile=str(folder / "localhost.pem"), **options) as producer:
        producer.send_and_wait("t", b"one")


def test_openssl_takes_what_is_made(folder: Path) -> None:
    for name in ("localhost.pem", "alice.pem"):
        checked = ["openssl", "verify", "-x509_strict", "-CAfile", str(folder / "ca.pem"), str(folder / name)]
        assert subprocess.run(checked, capture_output=True, check=False).returncode == 0
