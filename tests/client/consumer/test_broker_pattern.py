"""Patterns for brokers: what RE2 has goes there as it is, what only Python has is rejected by name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from odradek.client import Consumer
from odradek.client.consumer.options import broker_pattern
from odradek.client.errors import InvalidOption


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("t.*", "t.*"),
        (r"(?P<x>a|b)+?\d{2,3}[^(?=]\.", r"(?P<x>a|b)+?\d{2,3}[^(?=]\."),
        (r"\(\?=a", r"\(\?=a"),
        ("[+*]+a", "[+*]+a"),
        (re.compile("t.*", re.IGNORECASE | re.DOTALL), "(?is)t.*"),
        ("(?i)t.*", "(?i)t.*"),
        (re.compile("(?i)t.*", re.MULTILINE), "(?im)t.*"),
    ],
)
def test_what_re2_has_stays(pattern: str | re.Pattern[str], text: str) -> None:
    assert broker_pattern(pattern) == text


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("(?!internal).*", "a look-around"),
        ("(?<=a)b", "a look-around"),
        (r"(a)\1", "a back-reference"),
        ("(?P<x>a)(?P=x)", "a back-reference"),
        ("(a)?(?(1)b|c)", "a condition"),
        ("(?>a)b", "a possessive repeat"),
        ("a*+", "a possessive repeat"),
        ("a(?#why)", "a comment"),
        (r"a\Z", r"\\Z"),
        (re.compile("a b", re.VERBOSE), "the flag VERBOSE"),
    ],
)
def test_what_only_python_has_is_rejected_by_name(pattern: str | re.Pattern[str], name: str) -> None:
    with pytest.raises(InvalidOption, match=f"does not have {name}"):
        broker_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", 7, b"t", "a{4294967295}", "(?a)(?u)"])
async def test_what_is_no_pattern_is_said(pattern: Any) -> None:
    consumer: Consumer[Any, Any] = Consumer(group_id="g")
    with pytest.raises(InvalidOption, match=f"pattern={re.escape(repr(pattern))} is no regular expression"):
        consumer.subscribe(pattern=pattern)
