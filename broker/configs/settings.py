"""What a config is: Kafka's name, type, range, default and meaning, declared once on the field that holds the value.

A table of configs is a slotted dataclass whose fields are made by `setting()`: field `log_segment_bytes` is the config
`log.segment.bytes`. `settings_of(table)` gives the declarations back, in order; parsing, checking, describing and the
documentation all read those, so there is no second list.

Promise: a value in a table has been checked against its declaration; a bad one raises ConfigError, which names the
config, what is allowed and what was given.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeVar, cast

Value = int | float | bool | str | tuple[str, ...] | None
T = TypeVar("T")

# An error is one line that people read: a pasted file must not fill the terminal.
_SHOWN_VALUE_CHARS = 200


def near(name: str, names: Iterable[str]) -> str:
    """` (did you mean ...?)` for a misspelt name; empty where none is like it."""
    from difflib import get_close_matches  # needed for mistakes alone

    found = get_close_matches(name, list(names), n=1, cutoff=0.8)
    return f" (did you mean {found[0]}?)" if found else ""


class Kind(IntEnum):
    """A config's type, by DescribeConfigs' numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Source(IntEnum):
    """Where a value comes from, by DescribeConfigs' numbers (those that exist here)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class ConfigError(Exception):
    """A config that cannot be used: `name`, the `value` given and the `reason`, in one line of text."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        shown = str(value)
        if len(shown) > _SHOWN_VALUE_CHARS:
            shown = shown[:_SHOWN_VALUE_CHARS] + "..."
        super().__init__(f"{name}={shown}: {reason}")
        self.name = name
        self.value = value
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place that a value could come from, as DescribeConfigs lists them: strongest first."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config as DescribeConfigs shows it.

    `read_only`: can only be given to a broker that starts. A topic's configs never are.
    """

    name: str
    value: str | None
    source: Source
    kind: Kind
    documentation: str
    synonyms: tuple[Synonym, ...] = ()
    read_only: bool = True

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT_CONFIG

    @property
    def is_sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of one config.

    `low` and `high` are inclusive. `choices` bounds a STRING, or each entry of a LIST. `check` gives the reason why a
    well-typed value cannot be used, or None. `broker_synonyms` (topic configs only) are the broker's configs that give
    the default, strongest first, each with the factor that brings its unit to this one's. Where `acted_on` is false,
    Odradek does not act on the config yet: `default` is the one value that is true today, and no other is accepted.
    `dynamic` (broker configs only): a change is acted on while the broker runs.
    """

    name: str
    kind: Kind
    default: Value
    doc: str
    low: int | float | None = None
    high: int | float | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[Any], str | None] | None = None
    broker_synonyms: tuple[tuple[str, int], ...] = ()
    acted_on: bool = True
    dynamic: bool = False

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def range_text(self) -> str:
        """What is allowed, in words; empty where the type says it all."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.low is not None and self.high is not None:
            return f"from {self.low} to {self.high}"
        if self.low is not None:
            return f"at least {self.low}"
        return f"at most {self.high}" if self.high is not None else ""

    def parse(self, text: str) -> Value:
        """The value that `text` stands for, by the rules of Kafka's ConfigDef (blanks around it do not count)."""
        text = text.strip()
        match self.kind:
            case Kind.BOOLEAN:
                value = {"true": True, "false": False}.get(text.lower())
                if value is None:
                    raise ConfigError(self.name, text, "must be true or false")
            case Kind.INT | Kind.SHORT | Kind.LONG:
                value = self._parse_integer(text)
            case Kind.DOUBLE:
                value = self._parse_double(text)
            case Kind.LIST:
                value = tuple(part.strip() for part in text.split(",")) if text else ()
            case Kind.STRING | Kind.CLASS | Kind.PASSWORD:
                value = text
        self.validate(value)
        return value

    def validate(self, value: Value) -> None:
        """Raises ConfigError unless the value is in range. None is for the configs whose default is None."""
        if value is None and self.default is None:
            return
        if not isinstance(value, _PYTHON_TYPES[self.kind]) or (isinstance(value, bool) and self.kind != Kind.BOOLEAN):
            raise ConfigError(self.name, value, f"must be {_TYPE_WORDS[self.kind]}")
        reason = self._out_of_range(value) or (self.check(value) if self.check else None)
        if reason:
            raise ConfigError(self.name, self.format(value), reason)

    def format(self, value: Value) -> str | None:
        """The text of a value, as DescribeConfigs and a properties file write it."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return repr(value).replace("e+", "E").replace("e", "E")  # as Java's
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def _parse_integer(self, text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DIGITS:
            raise ConfigError(self.name, text, self._wanted())
        value = int(text)
        bits = _BITS[self.kind]
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ConfigError(self.name, text, self._wanted())
        return value

    def _parse_double(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ConfigError(self.name, text, self._wanted()) from None

    def _out_of_range(self, value: Value) -> str | None:
        if self.choices:
            entries = value if isinstance(value, tuple) else (value,)
            return None if all(entry in self.choices for entry in entries) else "must be " + self.range_text
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            too_low = self.low is not None and value < self.low
            if too_low or (self.high is not None and value > self.high):
                return self._wanted()
        return None

    def _wanted(self) -> str:
        words = f"must be {_TYPE_WORDS[self.kind]}"
        return f"{words}, {self.range_text}" if self.range_text else words


_PYTHON_TYPES: dict[Kind, type | tuple[type, ...]] = {
    Kind.BOOLEAN: bool,
    Kind.STRING: str,
    Kind.INT: int,
    Kind.SHORT: int,
    Kind.LONG: int,
    Kind.DOUBLE: (int, float),
    Kind.LIST: tuple,
    Kind.CLASS: str,
    Kind.PASSWORD: str,
}
_TYPE_WORDS = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "a text",
    Kind.INT: "a whole number of 32 bits",
    Kind.SHORT: "a whole number of 16 bits",
    Kind.LONG: "a whole number of 64 bits",
    Kind.DOUBLE: "a number",
    Kind.LIST: "a list separated by commas",
    Kind.CLASS: "a name",
    Kind.PASSWORD: "a text",
}
_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
# A 64-bit number has 19 digits; longer texts are refused before int() spends time on them.
_MAX_DIGITS = 19


def setting(
    kind: Kind,
    default: T,
    doc: str,
    *,
    low: int | float | None = None,
    high: int | float | None = None,
    choices: tuple[str, ...] = (),
    check: Callable[[Any], str | None] | None = None,
    broker_synonyms: tuple[tuple[str, int], ...] = (),
    dynamic: bool = False,
) -> T:
    """Declares a config as a dataclass field. The field's name gives the config's (`_` for `.`)."""
    value = cast(Value, default)
    declared = Setting("", kind, value, doc, low, high, choices, check, broker_synonyms, dynamic=dynamic)
    return field(default=default, metadata={"setting": declared})


@lru_cache(maxsize=8)
def settings_of(table: type) -> Mapping[str, Setting]:
    """The declarations of a table of configs, by Kafka's name, in the order of the fields."""
    found: dict[str, Setting] = {}
    for each in fields(table):
        declared = cast("Setting | None", each.metadata.get("setting"))
        if declared is not None:
            name = each.name.replace("_", ".")
            found[name] = replace(declared, name=name)
    return found
