"""The journal of changes: what this console has changed, each with the command line that does the same.

It is in memory, bounded, and ends with the process.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from .rendering import HIDDEN, visible

MAX_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class Change:
    """A change that can be made. `arguments` are those of `odradek`, without the address of the cluster."""

    title: str
    arguments: Sequence[str]
    apply: Callable[[], Awaitable[object]]
    # What it will do, for the preview: (what, from, to).
    effects: Sequence[tuple[str, str, str]] = ()
    # What cannot be undone.
    warning: str = ""
    # Where the result is to be seen.
    then: str = "/"
    # Runs on the left of the command, with a pipe: what it reads from standard input.
    piped: Sequence[str] = ()
    # What somebody has named, behind the words of the command: a topic, a group, a user.
    name: str = ""

    @property
    def seen(self) -> str:
        """A digest of what the preview says is there now. If it differs later, somebody has changed it."""
        now = [text for what, before, _ in self.effects for text in (what, before)]
        return hashlib.sha256("\0".join(now).encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def command_line(self, address: str) -> str:
        """Return the command line that does the same, for bash."""
        words = list(takewhile(lambda each: not each.startswith("-"), self.arguments))
        options = [*self.arguments[len(words) :], "-b", address]
        # A name that looks like an option stands where there are no options any more.
        rest = ["--", self.name] if self.name.startswith("-") else []
        named = [self.name] if self.name and not rest else []
        line = _joined(["odradek", *words, *named, *options, *rest])
        return f"{_joined(self.piped)} | {line}" if self.piped else line


def _joined(words: Iterable[str]) -> str:
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Return a word as bash reads it. Characters that a page cannot show are escapes."""
    if not HIDDEN.search(word):
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"$'{visible(plain)}'"


@dataclass(frozen=True, slots=True)
class Entry:
    """A change that was tried. `error` is empty if it was made."""

    number: int
    at_ms: int
    user: str
    title: str
    command_line: str
    then: str
    error: str


class Journal:
    """The last changes, the newest first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._count = 0

    def add(self, change: Change, address: str, user: str, at_ms: int, error: str = "") -> Entry:
        """Note that a change was made, or why it was not."""
        self._count += 1
        entry = Entry(self._count, at_ms, user, change.title, change.command_line(address), change.then, error)
        self._entries.appendleft(entry)
        return entry

    def entries(self) -> list[Entry]:
        return list(self._entries)

    def entry(self, number: int) -> Entry | None:
        """Return an entry, None for one that is too old or was never there."""
        return next((each for each in self._entries if each.number == number), None)
