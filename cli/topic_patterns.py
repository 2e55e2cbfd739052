"""Topic names with wildcards: `*`, `?` and `[abc]`, which no topic's name can contain."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from .errors import CliError

_WILDCARDS = "*?["


def matching(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names that patterns stand for, in order, each once. A name without a wildcard stands for itself.

    CliError for a pattern that no name matches.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not has_wildcard(pattern):
            found[pattern] = None
            continue
        matches = [name for name in sorted(names) if fnmatchcase(name, pattern)]
        if not matches:
            raise CliError(f"no topic matches {pattern!r}; `odradek topics list` names the topics that are there")
        found.update(dict.fromkeys(matches))
    return list(found)


def has_wildcard(pattern: str) -> bool:
    """Return whether the text is a pattern and no name."""
    return any(char in pattern for char in _WILDCARDS)
