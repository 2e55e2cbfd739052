"""The rules of ssl.principal.mapping.rules: from a certificate's distinguished name to a user's name.

    DEFAULT                           the name as it is
    RULE:pattern/replacement/         where the pattern matches the whole name; $1 is its first group
    RULE:pattern/replacement/L        the same, in lower case; U: in upper case

Rules are separated by commas, and the first that matches counts. A `/` in a rule is written `\\/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .pem import StoreError

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,\s*|$)", re.DOTALL)
_REFERENCE = re.compile(r"\\(.)|\$(\d)", re.DOTALL)
_CASES: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper, "": str}


class _Rule(NamedTuple):
    """A rule; DEFAULT has no pattern."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalRules:
    """The rules of one listener. Raises StoreError."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        position = 0
        text = text.strip() or "DEFAULT"
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                raise _mistake(f"no rule begins at {text[position : position + 40]!r}")
            self._rules.append(_rule(match))
            position = match.end()

    def name_of(self, distinguished_name: str) -> str | None:
        """Return the user's name; None where no rule matches."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            if match := rule.pattern.fullmatch(distinguished_name):
                return _CASES[rule.case](_replace(rule.replacement, match))
        return None


def _mistake(why: str) -> StoreError:
    return StoreError(f"ssl.principal.mapping.rules: {why}")


def _rule(match: re.Match[str]) -> _Rule:
    if match[1]:
        return _Rule(None, "", "")
    try:
        # In a rule a `/` has a backslash. Java's and Python's patterns take that one as it is.
        pattern = re.compile(match[2])
    except re.error as error:
        raise _mistake(f"the pattern {match[2]!r} is no regular expression: {error}") from None
    return _Rule(pattern, match[3], match[4])


def _replace(replacement: str, match: re.Match[str]) -> str:
    """Return the replacement with its references. One to a group that is not there is left as it is, as in Kafka."""

    def value(reference: re.Match[str]) -> str:
        if reference[1]:
            return reference[1]
        number = int(reference[2])
        return match[number] or "" if number <= len(match.groups()) else reference[0]

    return _REFERENCE.sub(value, replacement)
