"""Patterns of transactional ids: RE2's language, whole ids, and a bound on the time of each match."""

from __future__ import annotations

import pytest
from odradek.broker.coordination.expressions import BadExpression
from odradek.broker.coordination.transactions.description import MAX_PATTERN, MAX_PROGRAM, read_pattern


@pytest.mark.parametrize(
    "text", ["(", "a)", "[a", "*", "a{3,2}", "a{1001}", "(?=a)", r"\1", "[b-a]", "a" * (MAX_PATTERN + 1)]
)
def test_what_is_no_pattern_is_rejected(text: str) -> None:
    with pytest.raises(BadExpression):
        read_pattern(text)


def test_a_pattern_with_a_long_program_is_rejected() -> None:
    with pytest.raises(BadExpression, match=f"more than {MAX_PROGRAM}"):
        read_pattern("(.*a.{7}){40}x")


def test_nobody_asks_what_the_groups_of_a_pattern_have_matched() -> None:
    assert read_pattern("(.*)" * 50).groups == 0


def test_matches_whole_ids() -> None:
    assert read_pattern("^app-[0-9]+$").fullmatch("app-12")
    assert not read_pattern("app").fullmatch("app-12")
    assert read_pattern(r"(?i)^APP-[a-c]\d\w").fullmatch("App-B7x")
