"""Java's regular expressions for topic names, as `subscribePattern` takes them: the part that Python shares.

A pattern means the same in both languages, or it is rejected with the reason: one that quietly means something else
would read the wrong topics. As in Spark's own connector, a pattern is searched anywhere in the name unless it is
anchored.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

from .errors import OptionError

_PIECE = re.compile(r"\\.?|\(\?(?:<[=!]|[^<]|<)|\[\^?\]?|\]|&&|\{,|.", re.DOTALL)
# Letters and digits behind a backslash, and what follows "(?", which mean the same in both.
_ESCAPES, _ESCAPES_OF_A_CLASS = frozenset("dDwWsSbB123456789tnrfax"), frozenset("dDwWsStnrfax")
_GROUPS = frozenset({"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i", "(?m", "(?s", "(?-"})


def compile_pattern(option: str, text: str) -> re.Pattern[str]:
    """Return Python's pattern for Java's. `search` it. Raises OptionError."""
    if not text:
        raise OptionError(option, "the pattern is empty")
    for piece in _not_shared(text):
        raise OptionError(option, f"'{text}': Python does not read {piece} as Java does: write it in another way")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text, re.ASCII)
    except (re.error, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise OptionError(option, f"'{text}' is not a regular expression: {error}") from None


def _not_shared(text: str) -> Iterator[str]:
    in_class = False
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece[0] == "\\":
            known = _ESCAPES_OF_A_CLASS if in_class else _ESCAPES
            if piece[1:].isalnum() and piece[1:] not in known:
                yield piece
        elif in_class:
            if piece[0] == "[" or piece == "&&":
                yield f"{piece} inside of []"
            in_class = piece != "]"
        elif piece[0] == "[":
            if piece[-1] == "]":
                yield piece
            in_class = True
        elif piece == "{," or (piece.startswith("(?") and piece not in _GROUPS):
            yield piece
