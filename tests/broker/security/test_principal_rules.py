"""Names of users from distinguished names, and these from certificates."""

from __future__ import annotations

import contextlib
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.security.certificates import CertificateError, alternative_names, subject_name
from odradek.broker.security.pem import StoreError
from odradek.broker.security.principal_rules import PrincipalRules

NAME = "CN=Alice,OU=ops,O=Acme"


def certificate(attributes: list[x509.NameAttribute], *names: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(attributes)
    start = datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, start, start + datetime.timedelta(9))
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    return builder.add_extension(alternatives, False).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U , DEFAULT", "ALICE@OPS"),
        ("RULE:CN=Bob.*/bob/,RULE:CN=Al.*/x$7/", "x$7"),
        (r"RULE:CN=(.*),OU=.*/a\/$1/", "a/Alice"),
        ("RULE:CN=Bob/bob/", None),
        ("RULE:CN=Ali/x/", None),
    ],
)
def test_the_first_rule_that_matches_counts(rules: str, name: str | None) -> None:
    assert PrincipalRules(rules).name_of(NAME) == name


@pytest.mark.parametrize("rules", ["nonsense", "RULE:a/b", "DEFAULT DEFAULT", "RULE:(/x/"])
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(StoreError):
        PrincipalRules(rules)


def test_a_name_is_printed_as_in_java() -> None:
    made = certificate(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme, Inc"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
            x509.NameAttribute(NameOID.COMMON_NAME, " ü#x "),
        ]
    )
    assert subject_name(made) == r"CN=\ ü\#x\ ,1.2.840.113549.1.9.1=#1605614062" + r"2e63,O=Acme\, Inc,C=DE"


def test_alternative_names_can_be_compared() -> None:
    cn = [x509.NameAttribute(NameOID.COMMON_NAME, "x")]
    one, two = certificate(cn, "a", "b"), certificate(cn, "b")
    assert alternative_names(two) < alternative_names(one)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_certificate_or_a_typed_error(data: bytes) -> None:
    for read in (subject_name, alternative_names):
        with contextlib.suppress(CertificateError):
            read(data)
