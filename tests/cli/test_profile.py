"""Where a command finds its broker and its client's configs: -b, -X, the environment and profiles."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from odradek.cli.connection_options import connection_options
from odradek.cli.session import client_options
from odradek.tests.support.documents.command import rows, run


def address(*args: str) -> str:
    """The address that a command would connect to."""
    result = run("ping", "--timeout", "0.1", *args)
    assert result.exit_code == 1
    return result.stderr.split("cannot reach ")[1].split(" ")[0]


def test_b_then_the_named_profile_then_the_variable_then_the_current_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    run("profile", "set", "one", "bootstrap.servers=127.0.0.1:1")
    run("profile", "set", "two", "bootstrap.servers=127.0.0.1:2")
    run("profile", "use", "one")
    assert address() == "127.0.0.1:1"
    monkeypatch.setenv("ODRADEK_PROFILE", "two")
    assert address() == "127.0.0.1:2"
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", "127.0.0.1:3")
    assert address() == "127.0.0.1:3"
    assert address("--profile", "one") == "127.0.0.1:1"
    assert address("--profile", "one", "-b", "127.0.0.1:4") == "127.0.0.1:4"


def test_profiles_are_made_listed_shown_and_deleted(own_settings: Path) -> None:
    assert run("profile", "set", "a b", "bootstrap.servers=h:1", "request.timeout.ms=5000").exit_code == 0
    assert run("profile", "set", "c", "bootstrap.servers=h:2").exit_code == 0
    assert run("profile", "use", "c").exit_code == 0
    assert rows("profile", "list") == [["a b", "h:1", "no"], ["c", "h:2", "yes"]]
    assert rows("profile", "show", "a b") == [
        ["a b", "bootstrap.servers", "h:1"],
        ["a b", "request.timeout.ms", "5000"],
    ]
    assert run("profile", "set", "a b", "--delete", "request.timeout.ms").exit_code == 0
    assert rows("profile", "show", "a b") == [["a b", "bootstrap.servers", "h:1"]]
    assert "--yes" in run("profile", "delete", "c").stderr
    assert run("profile", "delete", "c", "--yes").exit_code == 0
    assert rows("profile", "list") == [["a b", "h:1", "no"]]
    assert "no profile is current" in run("profile", "show").stderr
    assert own_settings.stat().st_mode & 0o777 == 0o600


def test_a_file_that_people_edited_is_read(own_settings: Path) -> None:
    own_settings.write_text('current = "x"\n[profiles.x]\nbootstrap.servers = "h:7"\nrequest.timeout.ms = 5000\n')
    assert rows("profile", "show") == [["x", "bootstrap.servers", "h:7"], ["x", "request.timeout.ms", "5000"]]


@pytest.mark.parametrize("text", ["current = 3", "profiles = 3", "other = 1", "[profiles]\nx = 3", "= =", "\udcff"])
def test_a_file_that_cannot_be_read_is_one_line(own_settings: Path, text: str) -> None:
    own_settings.write_bytes(text.encode("utf-8", "surrogateescape"))
    ended = run("profile", "list")
    assert ended.exit_code == 1 and str(own_settings) in ended.stderr and ended.stderr.count("\n") == 1


def test_what_no_profile_can_hold_is_rejected() -> None:
    assert run("profile", "set", "x").exit_code == 2
    assert "did you mean fetch.min.bytes?" in run("profile", "set", "x", "fetch.min.byte=1").stderr
    assert "there is no profile 'x'" in run("topics", "list", "--profile", "x").stderr
    assert "there is no profile 'x'" in run("profile", "use", "x").stderr
    assert run("profile", "use").exit_code == 2


def options(kind: str, *args: str) -> dict[str, object]:
    """The options that a command with -X gives to its client."""
    found: dict[str, object] = {}

    @click.command()
    @connection_options("consumer", "admin")
    def command(bootstrap_server: str) -> None:
        found.update(client_options(kind, client_id="odradek-cli", request_timeout_ms=1))

    command.main(list(args), standalone_mode=False)
    return found


def test_client_configs_reach_the_client_that_knows_them() -> None:
    given = ("-X", "client.id=mine", "-X", "fetch.min.bytes=7", "-X", "check.crcs=False")
    usual = {"request_timeout_ms": 1, "default_api_timeout_ms": 20_000}
    expected = usual | {"client_id": "mine", "allow_auto_create_topics": False}
    assert options("consumer", *given) == expected | {"fetch_min_bytes": 7, "check_crcs": False}
    assert options("admin", *given) == usual | {"client_id": "mine"}
    assert options("admin") == usual | {"client_id": "odradek-cli"}


def test_security_reaches_every_client_by_the_names_of_java() -> None:
    jaas = 'sasl.jaas.config=ScramLoginModule required username="u" password="p";'
    given = ("-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanism=SCRAM-SHA-512", "-X", jaas)
    expected = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }
    for kind in ("admin", "consumer"):
        assert expected.items() <= options(kind, *given).items()


def test_security_that_does_not_go_together_is_one_line() -> None:
    ended = run("topics", "list", "-X", "security.protocol=SASL_SSL")
    assert ended.exit_code == 1
    assert ended.stderr.startswith("odradek: sasl.mechanism must be one of") and ended.stderr.count("\n") == 1


def test_client_configs_of_a_profile_are_replaced_by_x() -> None:
    run("profile", "set", "p", "fetch.min.bytes=3", "client.id=p", "linger.ms=4")
    found = options("consumer", "--profile", "p", "-X", "client.id=x")
    assert (found["client_id"], found["fetch_min_bytes"], "linger_ms" in found) == ("x", 3, False)


def test_security_of_a_profile_is_replaced_by_any_name_of_x() -> None:
    jaas = 'sasl.jaas.config=ScramLoginModule required username="u" password="p";'
    run("profile", "set", "p", "bootstrap.servers=h:1", jaas, "ssl.truststore.location=a.pem")
    found = options("admin", "--profile", "p", "-X", "sasl.password=q", "-X", "ssl.ca.location=b.pem")
    assert [found[name] for name in ("sasl_plain_username", "sasl_plain_password", "ssl_cafile")] == ["u", "q", "b.pem"]


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("fetch.min.byte=1", "did you mean fetch.min.bytes?"),
        ("linger.ms=1", "linger.ms would have no effect"),
        ("fetch.min.bytes=x", "needs a whole number"),
        ("check.crcs=1", "needs true or false"),
        ("topics=x", "no config of this command's client"),
        ("fetch.wait.max.ms=5", "did you mean fetch.max.wait.ms?"),
        ("compression.codec=lz4", "--compression"),
        ("max.poll.records=5", "would have no effect"),
        ("group.id=g", "--group"),
        ("ssl.truststore.type=JKS", "-X: ssl.truststore.type=JKS: only PEM can be read"),
        ("ssl.trustore.location=x", "did you mean ssl.truststore.location?"),
        ("novalue", "NAME=VALUE"),
    ],
)
def test_what_no_client_acts_on_is_wrong_usage(pair: str, words: str) -> None:
    ended = run("consume", "t", "-X", pair)
    assert ended.exit_code == 2 and words in ended.stderr
