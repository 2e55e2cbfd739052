"""Patterns that filter transactional ids in ListTransactions (KIP-1152), in the language of RE2.

RE2 matches in time in proportion to text times program, whatever the pattern. With Python's `re` one pattern could stop
the broker.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple, Protocol

# In characters. What remains of it is bounded by the program.
MAX_PATTERN = 250
# In RE2's instructions: an id of 32 KiB is matched in 35 ms at most.
MAX_PROGRAM = 800
# So many instructions, one for each character, take as long as a value of a response does (large_response.py).
INSTRUCTIONS_PER_VALUE = 3_000


class InvalidPattern(Exception):
    """A pattern that is none, or one that takes too long."""


class _Program(Protocol):
    @property
    def programsize(self) -> int: ...

    def fullmatch(self, text: str) -> object: ...


class IdPattern(NamedTuple):
    """A pattern that matches whole ids."""

    program: _Program

    def matches(self, transactional_id: str) -> bool:
        """Return whether the pattern matches all of an id."""
        return self.program.fullmatch(transactional_id) is not None

    def values(self, transactional_id: str) -> int:
        """Return how many values of a response the match of an id equals at most."""
        return 1 + len(transactional_id) * self.program.programsize // INSTRUCTIONS_PER_VALUE


def read_pattern(text: str) -> IdPattern:
    """Return the pattern. Raises InvalidPattern."""
    if len(text) > MAX_PATTERN:
        raise InvalidPattern(f"a pattern of {len(text)} characters, more than {MAX_PATTERN}")
    re2: Any = import_module("re2")  # most brokers never meet a pattern; RE2 has no types

    options = re2.Options()
    options.log_errors = False
    try:
        program = re2.compile(text, options)
    except re2.error as error:
        raise InvalidPattern(f"{text!r}: {error.args[0].decode()}") from None
    if program.programsize > MAX_PROGRAM:
        raise InvalidPattern(f"{text!r}: {program.programsize} instructions, more than {MAX_PROGRAM}")
    return IdPattern(program)
