"""The functions of the client that need no client object: waiting for a broker, and reading a topic as a table."""

from __future__ import annotations

from .. import topic_table
from ..core import waiting
from .derivation import waiting_function

wait_for_broker = waiting_function(waiting.wait_for_broker)
read_topic = waiting_function(topic_table.read_topic)
