"""What the source itself raises, on the driver and in tasks. Spark shows the text to the user: it says what to change.

Trouble with brokers is the client's (`..errors`), broken bytes are `odradek.protocol`'s DecodeError.
"""

from __future__ import annotations

from ..errors import InvalidOption, OffsetOutOfRange


class OptionError(InvalidOption):
    """An option that is unknown, malformed, contradictory or not supported. `option` is its name as documented."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"option '{option}': {why}")
        self.option = option


class SchemaError(InvalidOption):
    """A `.schema(...)` that the rows of a topic cannot have."""


class DataLoss(OffsetOutOfRange):
    """Offsets that were to be read are gone: aged out, truncated, or the topic was deleted or made anew."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; set failOnDataLoss to false to read what is left")
