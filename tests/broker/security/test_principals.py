"""Principals and the addresses that ACLs name."""

from __future__ import annotations

import pytest
from odradek.broker.security.principals import ANONYMOUS, address_text, parse_principal, user


def test_a_principal_prints_as_kafka_writes_it() -> None:
    assert str(user("alice")) == "User:alice"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_a_text_without_a_type_is_no_principal() -> None:
    assert parse_principal("User:a:b") == user("a:b")
    assert parse_principal("alice") is None
    assert parse_principal(":alice") is None


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::a:b%eth0", "fe80:0:0:0:0:0:a:b%eth0"),
        ("2001:db8::", "2001:db8:0:0:0:0:0:0"),
    ],
)
def test_addresses_are_printed_as_in_java(address: str, text: str) -> None:
    assert address_text(address) == text
