"""Topics as Arrow tables, for programs without asyncio."""

from __future__ import annotations

from .. import topic_table
from .derivation import waiting_function

read_topic = waiting_function(topic_table.read_topic)
