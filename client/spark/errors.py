"""The errors of the data source, on the driver and in tasks. Spark shows their text, so it says what to change.

Errors of brokers are the client's (`..errors`); corrupt bytes raise DecodeError of `odradek.protocol`.
"""

from __future__ import annotations

from ..arrow.fetch import DataLoss
from ..errors import ClientError, ErrorCode, InvalidOption


class OptionError(InvalidOption):
    """An option that is unknown, malformed, contradictory or not supported. `option` is its name as documented."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"option '{option}': {why}")
        self.option = option


class SchemaError(InvalidOption):
    """A `.schema(...)` that does not fit the rows of a topic."""


class BadRecord(ClientError, code=ErrorCode.INVALID_RECORD):
    """A key or value that does not fit its schema, with mode=FAILFAST."""


class TopicRecreated(DataLoss):
    """A topic of a stream was deleted, and one of its name was created: its offsets are those of other records."""


class ForeignOffsets(InvalidOption):
    """A checkpoint whose offsets are not those of topics: another source has written it."""
