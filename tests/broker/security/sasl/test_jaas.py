"""Lines of login modules."""

from __future__ import annotations

import pytest
from odradek.broker.security.sasl.jaas import BadLine, parse


def test_the_options_of_a_line() -> None:
    line = 'org.a.PlainLoginModule required\n username="a" user_b="x\\"y" user_c=\'z\' n=1 ;'
    found = parse(line)
    assert found.name == "PlainLoginModule"
    assert found.options == {"username": "a", "user_b": 'x"y', "user_c": "z", "n": "1"}


@pytest.mark.parametrize("line", ["", "hunter2", "X required;;", 'X required a="hunter2"', "X required hunter2;"])
def test_another_text_is_refused_and_not_repeated(line: str) -> None:
    with pytest.raises(BadLine) as caught:
        parse(line)
    assert "hunter2" not in str(caught.value)
