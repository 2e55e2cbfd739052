"""Differences: why one schema cannot read what another one wrote, in the words and the form of Confluent's answers."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import RegistryError

# Of each part of a reason: a path can be as long as the schema.
MAX_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Difference:
    """One reason. In `text`, READER and WRITER stand for the two schemas: who is the new one depends on the check."""

    kind: str
    text: str
    info: str = ""

    def message(self, *, reader_is_new: bool) -> str:
        """Return the line of an answer. `{` and `'` are Confluent's own form, which is no JSON."""
        reader, writer = ("new", "old") if reader_is_new else ("old", "new")
        text = self.text.replace("READER", reader).replace("WRITER", writer)
        info = f", additionalInfo:'{self.info}'" if self.info else ""
        return f"{{errorType:'{self.kind}', description:'{text[:MAX_CHARACTERS]}'{info[:MAX_CHARACTERS]}}}"


class Steps:
    """Bounds a comparison with one version or many: two schemas of a megabyte have billions of pairs of types."""

    MAX_STEPS = 200_000
    # More reasons than this tell nobody more.
    MAX_DIFFERENCES = 100

    def __init__(self) -> None:
        self._left = self.MAX_STEPS

    def take(self, count: int = 1) -> None:
        """Count pairs of types. Raises RegistryError when there are too many."""
        self._left -= count
        if self._left < 0:
            raise RegistryError(42201, f"Comparing the schemas takes more than {self.MAX_STEPS} steps")
