"""The options of an archiver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.options import check_choice
from ..errors import InvalidOption
from ..record import EARLIEST
from .day_files import TARGET_BYTES
from .once import COMMIT_TIMEOUT_S
from .typed import BAD, FORMATS, TypedValues, of_json, of_registry

# A round that finds more than this ends early, so that a year's backlog comes in commits of this size.
COMMIT_BYTES = 1 << 30
# So does one that has made so many files: a commit has some 7 KB of memory for each of them.
COMMIT_FILES = 1_000


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What an archiver does, beside the reading of a topic."""

    # Of the table, with its namespace; None: that of the topic's name.
    table: tuple[str, ...] | None = None
    # For a table without state: EARLIEST, LATEST, or an offset from 0 on. Later partitions begin at their first one.
    start: int = EARLIEST
    # Instead: the first record at or after this time.
    start_ms: int | None = None
    # Whether offsets that retention has removed before they were archived end the archiver.
    fail_on_data_loss: bool = True
    target_bytes: int = TARGET_BYTES
    commit_bytes: int = COMMIT_BYTES
    commit_files: int = COMMIT_FILES
    commit_timeout_s: float = COMMIT_TIMEOUT_S
    # How values get types, as the schema is when it is called: once a round.
    values: Callable[[], TypedValues] | None = None


def values_by(
    topic: str, value_format: str | None, fields: str | None = None, registry: Any = None, bad: str = "keep"
) -> Callable[[], TypedValues] | None:
    """Return how values get types, as ArchiveOptions take it; None where they stay bytes. Raises InvalidOption."""
    if value_format is None:
        if fields is not None or registry is not None or bad != "keep":
            raise InvalidOption("fields, a registry, and what becomes of bad values need a format of values")
        return None
    check_choice("the format of values", value_format, FORMATS)
    check_choice("what becomes of bad values", bad, BAD)
    if value_format == "json":
        if fields is None or registry is not None:
            raise InvalidOption("values in json need fields, and no registry")
        made = of_json(fields, bad)
        return lambda: made
    if fields is not None or registry is None:
        raise InvalidOption(f"values in {value_format} need a registry, and no fields")
    return lambda: of_registry(registry, topic, value_format, bad)
