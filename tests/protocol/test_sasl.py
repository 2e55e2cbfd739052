"""SASL of the side that logs in: PLAIN and SCRAM against the examples of their RFCs."""

from __future__ import annotations

import base64

import pytest
from odradek.protocol.sasl import LoginFailed, advance, plain, salted_password, scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_plain_is_that_of_rfc_4616() -> None:
    machine = plain("tim", "tanstaaftanstaaf")
    assert next(machine) == b"\0tim\0tanstaaftanstaaf"
    assert advance(machine, b"") is None


def test_scram_sha_256_is_the_exchange_of_rfc_7677() -> None:
    machine = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(machine) == f"n,,n=user,r={NONCE}".encode()
    assert advance(machine, SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    assert advance(machine, SERVER_FINAL.encode()) is None


def test_the_hashes_are_those_of_rfc_5802_with_longer_keys() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    assert salted_password("SCRAM-SHA-256", "pencil", salt, 4096).hex() == (
        "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d"
    )
    assert len(salted_password("SCRAM-SHA-512", "pencil", salt, 4096)) == 64


def test_names_with_signs_of_scram_are_escaped() -> None:
    assert next(scram("SCRAM-SHA-512", "a=b,c", "x", "n")) == b"n,,n=a=3Db=2Cc,r=n"


def test_every_exchange_has_a_nonce_of_its_own() -> None:
    assert next(scram("SCRAM-SHA-256", "u", "p")) != next(scram("SCRAM-SHA-256", "u", "p"))


@pytest.mark.parametrize(
    ("server_first", "words"),
    [
        ("r=other,s=c2FsdA==,i=4096", "does not answer"),
        (f"r={NONCE},s=c2FsdA==,i=4096", "does not answer"),
        (f"m=x,r={NONCE}y,s=c2FsdA==,i=4096", "does not answer"),
        (f"r={NONCE}y,s=c2FsdA==,i=1", "asks for 1 SCRAM iterations"),
        (f"r={NONCE}y,s=c2FsdA==,i=9000000", "9000000"),
        (f"r={NONCE}y,s=!,i=4096", "makes no sense"),
        (f"r={NONCE}y,i=4096", "makes no sense"),
        ("\xff", "makes no sense"),
        ("e=unknown-user", "unknown-user"),
    ],
)
def test_a_first_message_that_no_broker_sends_is_rejected(server_first: str, words: str) -> None:
    machine = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(machine)
    with pytest.raises(LoginFailed, match=words):
        machine.send(server_first.encode("latin-1"))


@pytest.mark.parametrize("final", ["v=AAAA", "", "x=1", "e=other-error", "v=\xff"])
def test_a_broker_that_does_not_know_the_password_is_not_believed(final: str) -> None:
    machine = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(machine)
    machine.send(SERVER_FIRST.encode())
    with pytest.raises(LoginFailed, match=r"does not know this user's password|other-error"):
        machine.send(final.encode("latin-1"))
