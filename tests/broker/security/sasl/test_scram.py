"""SCRAM beside another implementation, with hostile messages, and what an unknown user looks like."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.security.sasl.exchange import Failed, Identity
from odradek.broker.security.sasl.scram import HASHES, Credential, Strangers, credential_of, scram

STRANGER = Strangers(bytes(32), {})


def credential(mechanism: str, password: str = "secret", iterations: int = 4096) -> Credential:
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), b"salt of 16 bytes", iterations)
    return credential_of(mechanism, salted, b"salt of 16 bytes", iterations)


def outcome(client: scramp.ScramClient, mechanism: str, found: Credential | None) -> Identity:
    exchange = scram(client.get_client_first().encode(), mechanism, lambda name: found, STRANGER)
    client.set_server_first(next(exchange).decode())
    with pytest.raises(StopIteration) as end:
        exchange.send(client.get_client_final().encode())
    client.set_server_final(end.value.value.data.decode())
    return end.value.value


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("name", ["alice", "a,b=c", "=2C"])
def test_each_side_proves_that_it_knows_the_password(mechanism: str, name: str) -> None:
    assert outcome(scramp.ScramClient([mechanism], name, "secret"), mechanism, credential(mechanism)).name == name


@pytest.mark.parametrize("found", [None, credential("SCRAM-SHA-256", "other")], ids=["unknown user", "wrong password"])
def test_an_unknown_user_fails_where_a_wrong_password_does(found: Credential | None) -> None:
    client = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "secret")
    exchange = scram(client.get_client_first().encode(), "SCRAM-SHA-256", lambda name: found, STRANGER)
    client.set_server_first(next(exchange).decode())
    with pytest.raises(Failed, match="wrong name or password"):
        exchange.send(client.get_client_final().encode())


def test_an_unknown_user_has_the_same_salt_each_time() -> None:
    salts = {STRANGER.credential("SCRAM-SHA-256", "x").salt for _ in range(2)}
    assert len(salts) == 1
    assert STRANGER.credential("SCRAM-SHA-256", "y").salt not in salts


@pytest.mark.parametrize(
    "first",
    [
        b"n,,n=" + b"a" * 1_001 + b",r=x",
        b"n,,n=a,r=x" + b",a=b" * 101,
        b"",
        b"n,,",
        b"p=tls-unique,,n=a,r=x",
        b"n,a=b,n=a,r=x",
        b"n,,n=a=b,r=x",
        "n,,n=ü,r=x".encode(),
        b"n,,n=,r=x",
    ],
)
def test_a_first_message_of_another_form_is_refused(first: bytes) -> None:
    with pytest.raises(Failed):
        next(scram(first, "SCRAM-SHA-256", lambda name: None, STRANGER))


def test_a_first_message_may_have_extensions_and_the_users_own_id() -> None:
    first = b"n,a=alice,m=x,n=alice,r=nonce,tokenauth=true,f=x"
    assert next(scram(first, "SCRAM-SHA-256", lambda name: None, STRANGER, "mine")).startswith(b"r=noncemine,s=")


@pytest.mark.parametrize("extension", [b"tokenauth=true", b"f=x,tokenauth=TRUE"])
def test_the_name_of_who_logs_in_by_a_token_is_no_users(extension: bytes) -> None:
    """Kafka looks such a name up among its delegation tokens. Here are none."""
    first, asked = b"n,,n=alice,r=nonce,", list[str]()
    said = next(scram(first + extension, "SCRAM-SHA-256", asked.append, STRANGER, "mine"))  # type: ignore[arg-type]
    assert asked == []
    assert base64.b64encode(STRANGER.credential("SCRAM-SHA-256", "\0token:alice").salt) in said


@pytest.mark.parametrize(
    "final", [b"", b"c=biws,r=other,p=AAAA", b"c=eSws,r=nm,p=AAAA", b"c=biws,r=nm,p=A", b"c=biws,r=nm,p=AAAA"]
)
def test_a_last_message_of_another_form_is_refused(final: bytes) -> None:
    exchange = scram(b"n,,n=alice,r=n", "SCRAM-SHA-256", lambda name: credential("SCRAM-SHA-256"), STRANGER, "m")
    next(exchange)
    with pytest.raises(Failed):
        exchange.send(final)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_an_answer_or_a_typed_failure(first: bytes, last: bytes) -> None:
    exchange = scram(first, "SCRAM-SHA-256", lambda name: None, STRANGER)
    with pytest.raises(Failed):
        next(exchange)
        exchange.send(last)


def kept(salt: bytes, iterations: int = 4096) -> dict[str, Credential]:
    return {"SCRAM-SHA-256": Credential(salt, bytes(32), bytes(32), iterations)}


def test_what_an_unknown_user_is_told_is_a_matter_of_the_secret_alone() -> None:
    passwords = {"alice": kept(b"16 random bytes\xff")}
    first, second = Strangers(b"secret", passwords), Strangers(b"secret", passwords)
    assert first.credential("SCRAM-SHA-256", "eve").salt == second.credential("SCRAM-SHA-256", "eve").salt
    assert first.credential("SCRAM-SHA-256", "eve").salt != first.credential("SCRAM-SHA-256", "eva").salt
    other = Strangers(b"another", passwords)
    assert first.credential("SCRAM-SHA-256", "eve").salt != other.credential("SCRAM-SHA-256", "eve").salt


@pytest.mark.parametrize(
    ("salt", "iterations"), [(bytes(range(24)), 4096), (bytes(range(64)), 8192), (b"1tzx28r4mbc5evghhs8u7axxm", 4096)]
)
def test_an_unknown_user_looks_as_the_real_ones_do(salt: bytes, iterations: int) -> None:
    passwords = {f"user-{number}": kept(salt, iterations) for number in range(3)}
    for number in range(20):
        told = Strangers(b"secret", passwords).credential("SCRAM-SHA-256", f"nobody-{number}")
        assert (len(told.salt), told.iterations, told.salt.isalnum()) == (len(salt), iterations, salt.isalnum())


def test_unknown_users_have_the_forms_of_all_real_ones() -> None:
    strangers = Strangers(b"secret", {"alice": kept(bytes(24)), "bob": kept(bytes(64), 10_000)})
    told = [strangers.credential("SCRAM-SHA-256", f"nobody-{number}") for number in range(50)]
    assert {(len(each.salt), each.iterations) for each in told} == {(24, 4096), (64, 10_000)}
    # Passwords that come and go without a new form change nothing.
    strangers._passwords["carol"] = kept(bytes(24))  # type: ignore[index]
    assert [strangers.credential("SCRAM-SHA-256", f"nobody-{number}").salt for number in range(50)] == [
        each.salt for each in told
    ]


def first_answer(
    user: str, passwords: Mapping[str, dict[str, Credential]], strangers: Strangers, more: str = ""
) -> str:
    """Return salt and iterations that a client is told."""
    exchange = scram(
        f"n,,n={user},r=nonce{more}".encode(),
        "SCRAM-SHA-256",
        lambda name: passwords.get(name, {}).get("SCRAM-SHA-256"),
        strangers,
    )
    return next(exchange).decode().partition(",")[2]


class _Counted(dict[str, dict[str, Credential]]):
    """Passwords, and how often all of them are looked at."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def test_an_unknown_user_costs_no_more_than_a_real_one() -> None:
    """It took a millisecond with a thousand users, and a few microseconds where there was the user."""
    passwords = _Counted({f"user-{number}": kept(bytes(24)) for number in range(10)})
    now_ms = 1_000
    strangers = Strangers(b"secret", passwords, lambda: now_ms)
    for user in ("nobody", "user-1", "nobody", "else"):
        first_answer(user, passwords, strangers)
    assert passwords.looks == 1
    now_ms += 60_000
    for user in ("user-1", "nobody"):
        first_answer(user, passwords, strangers)
        assert passwords.looks == 2
    made: list[str] = []
    strangers.credential = lambda mechanism, user: made.append(user) or Credential(b"", b"", b"", 4096)  # type: ignore[method-assign,func-returns-value]
    for user in ("user-1", "nobody"):
        first_answer(user, passwords, strangers)
    assert made == ["user-1", "nobody"]


@pytest.mark.parametrize("more", [",tokenauth=true", ",x=y,TOKENAUTH=true"])
def test_the_salt_of_a_delegation_token_does_not_tell_whether_there_is_a_user(more: str) -> None:
    """It was that of an unknown user of the same name: only a real user got two."""
    passwords = {"alice": kept(bytes(24))}
    strangers = Strangers(b"secret", passwords)
    for user in ("alice", "nobody"):
        as_token = first_answer(user, passwords, strangers, more)
        assert as_token != first_answer(user, passwords, strangers)
        assert as_token == first_answer(user, passwords, strangers, more)


def test_without_a_password_of_the_mechanism_the_form_is_that_of_our_own_tool() -> None:
    told = Strangers(b"secret", {"alice": kept(bytes(64))}).credential("SCRAM-SHA-512", "nobody")
    assert (len(told.salt), told.iterations) == (24, 4096)
