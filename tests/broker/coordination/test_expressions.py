"""Regular expressions of clients are those of RE2/J. Go's own client asks both brokers more of them in conformance."""

from __future__ import annotations

import sys

import pytest
from odradek.broker.coordination import expressions
from odradek.broker.coordination.consumer import regexes
from odradek.broker.coordination.transactions.description import read_pattern
from odradek.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("text", [r"\C", r"a\C*", r"\\\C", r"\Qa\E\C"])
def test_a_single_byte_is_no_expression_as_in_kafka(text: str) -> None:
    with pytest.raises(expressions.BadExpression, match="escape"):
        expressions.compiled(text)
    with pytest.raises(KafkaError, match="SubscribedTopicRegex") as caught:
        regexes.compiled(text)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(("text", "name"), [(r"\\C", r"\C"), (r"\Q\C\E", r"\C"), (r"\Q\C", r"\C"), (r"\x43", "C")])
def test_what_only_looks_like_it_is_one(text: str, name: str) -> None:
    assert expressions.compiled(text).fullmatch(name)


def test_without_re2_every_pattern_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(KafkaError, match="it needs google-re2") as caught:
        regexes.compiled("a.*")
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    with pytest.raises(expressions.BadExpression, match="it needs google-re2"):
        read_pattern("a.*")
