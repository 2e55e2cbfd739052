"""The table of all kinds of changes: the last part of a form's path, and what it is."""

from __future__ import annotations

from . import access, groups, records, topics
from .kind import Kind

KINDS: dict[str, Kind] = {**topics.KINDS, **records.KINDS, **groups.KINDS, **access.KINDS}
