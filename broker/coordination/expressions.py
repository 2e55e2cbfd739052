"""Regular expressions of clients: those of RE2/J, which Kafka uses, compiled by RE2, which takes linear time too."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

# Memory of one compiled expression, which bounds the time to compile and to match it, too. RE2 itself takes 8 MiB.
MAX_MEMORY_BYTES = 1 << 19
# A text that is quoted, or an escape and its character.
_ESCAPED = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)


class BadExpression(Exception):
    """A text that is no regular expression of RE2/J, or any where RE2 is not installed."""


def compiled(text: str) -> Any:
    """Return the compiled expression. Raises BadExpression."""
    re2 = _re2()
    options = re2.Options()
    options.log_errors = False
    # Only whether it matches is asked. To find what each group has matched takes a hundred times as long.
    options.never_capture = True
    options.max_mem = MAX_MEMORY_BYTES
    if any(found[1] == "C" for found in _ESCAPED.finditer(text)):
        # RE2 alone knows it: a match could end within a character.
        raise BadExpression(r"invalid escape sequence: \C")
    try:
        return re2.compile(text, options)
    except re2.error as error:
        why = error.args[0]
        raise BadExpression(why.decode() if isinstance(why, bytes) else str(why)) from None


def _re2() -> Any:
    """Return RE2, which has no types. Most brokers never meet a pattern. On the newest Python it may have no wheel."""
    try:
        return import_module("re2")
    except ModuleNotFoundError:
        raise BadExpression("this broker reads no regular expressions: it needs google-re2") from None
