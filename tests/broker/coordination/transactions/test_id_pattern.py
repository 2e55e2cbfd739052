"""Patterns of transactional ids: they match as Python's re does, and never slowly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.coordination.transactions.id_pattern import MAX_PATTERN, VISITS_PER_VALUE, InvalidPattern, matcher

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\.", "1"])
COUNTS = ["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}"]
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(COUNTS)).map(lambda two: f"(?:{two[0]}){two[1]}"),
    ),
    max_leaves=6,
)


def is_match(pattern: str, text: str) -> bool:
    match = matcher(pattern)(text)
    while True:
        try:
            next(match)
        except StopIteration as end:
            return end.value


@given(PATTERNS, st.lists(st.text("ab1.", max_size=6), max_size=6))
def test_matches_as_re_does(pattern: str, texts: list[str]) -> None:
    for text in texts:
        assert is_match(pattern, text) == bool(re.fullmatch(pattern, text))


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "a)",
        "[a",
        "*",
        "a**",
        "a{2}{3}",
        "a{3,2}",
        "a{1001}",
        "(a{99}){99}",
        "a{400}b{400}",
        "a{",
        "\\p",
        "[b-a]",
        "\\",
        "a^b",
        "(" * 99,
        "a" * (MAX_PATTERN + 1),
    ],
)
def test_refuses_what_it_does_not_know(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        matcher(pattern)


def test_a_pattern_that_stops_others_does_not_stop_it() -> None:
    assert not is_match("(a+)+(a*)*b", "a" * 2000)


def test_a_long_id_is_matched_in_many_steps() -> None:
    steps = list(matcher(".*" * 100)("a" * 1000))
    assert len(steps) == 1000
    assert sum(steps) > 1000 * 100 / VISITS_PER_VALUE


def test_matches_whole_ids() -> None:
    assert is_match("^app-[0-9]+$", "app-12")
    assert not is_match("app", "app-12")


def test_in_any_case() -> None:
    for pattern in ("(?i)^APP-[a-c]\\d", "(?i)app-[A-C]\\D?[^x]"):
        assert is_match(pattern, "App-B7")
    assert not is_match("app-b7", "App-B7")
    assert not is_match("(?i)[^x]", "X")
