"""The definition of a config (Kafka's ConfigDef): name, type, default, range and documentation, in one row of a table.

A table is a ConfigTable whose fields are made by `define`: the field `log_segment_bytes` is the config
`log.segment.bytes`. `definitions_of` returns the rows of a table. Parsing, checks, DescribeConfigs and the reference
page all read these rows, so a default or a text stands once.

Promise: a value in a table has been checked against its row. A bad value raises ConfigError, which names the config,
what is allowed and what was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast, dataclass_transform

from ...protocol.primitives import BLANKS

Value = int | float | bool | str | tuple[str, ...] | None
T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

# An error is one line that people read: a pasted file must not fill the terminal.
_SHOWN_VALUE_CHARS = 200
# What stands for a password in logs and errors.
HIDDEN = "[hidden]"
# A 64-bit number has 19 digits; longer texts are rejected before int() spends time on them.
_MAX_DIGITS = 19
# A client sets no longer value, so that a response has room for it. Those of a file, and of passwords, may be longer.
MAX_VALUE_CHARS = 0x7FFF
# A longer name is like none: the longest one has some 80, and the search looks at each character.
_MAX_NAME_CHARS = 250


class ConfigType(IntEnum):
    """The type of a config, with its number in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN, STRING, INT, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
DOUBLE, LIST, SHORT = ConfigType.DOUBLE, ConfigType.LIST, ConfigType.SHORT
CLASS, PASSWORD = ConfigType.CLASS, ConfigType.PASSWORD

# What Python has for a type, and what an error calls it.
_TYPES: dict[ConfigType, tuple[type | tuple[type, ...], str]] = {
    BOOLEAN: (bool, "true or false"),
    STRING: (str, "a text"),
    INT: (int, "a whole number of 32 bits"),
    SHORT: (int, "a whole number of 16 bits"),
    LONG: (int, "a whole number of 64 bits"),
    DOUBLE: ((int, float), "a number"),
    LIST: (tuple, "a list separated by commas"),
    CLASS: (str, "a name"),
    PASSWORD: (str, "a text"),
}
_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


class ConfigError(Exception):
    """A config cannot be used: `name`, the `value` given and the `reason`, in one line of text."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        shown = str(value)
        if len(shown) > _SHOWN_VALUE_CHARS:
            shown = shown[:_SHOWN_VALUE_CHARS] + "..."
        super().__init__(f"{name}={shown}: {reason}")
        self.name = name
        self.value = value
        self.reason = reason


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean ...?)` for a misspelt name, or an empty text where no name is like it."""
    close, _ = nearest(name, names)
    return f" (did you mean {close}?)" if close else ""


def nearest(name: str, names: Iterable[str]) -> tuple[str, float]:
    """Return the name that is most like `name`, with its likeness up to 1; an empty one where none is like it."""
    from difflib import SequenceMatcher, get_close_matches  # only mistakes need it

    if len(name) > _MAX_NAME_CHARS:
        return "", 0.0
    plain = name.strip().lower().replace("_", ".")
    found = get_close_matches(plain, sorted(names), n=1)
    return (found[0], SequenceMatcher(None, found[0], plain).ratio()) if found else ("", 0.0)


class ConfigDef(NamedTuple):
    """One row of a table of configs."""

    name: str
    type: ConfigType
    default: Value
    doc: str
    # Inclusive bounds of a number.
    low: int | float | None = None
    high: int | float | None = None
    # What a STRING, or each entry of a LIST, may be; empty: anything.
    choices: tuple[str, ...] = ()
    # Returns the reason why a value of the right type cannot be used, or None.
    check: Callable[[Any], str | None] | None = None
    # Broker configs: whether a change takes effect while the broker runs.
    dynamic: bool = False
    # Broker configs: the topic config that takes its default from this one, and where it differs from it, the lower
    # bound (then its only bound) and the default.
    topic: str = ""
    topic_low: int | None = None
    topic_default: Value = None
    # Topic configs: the broker configs that give the default, strongest first.
    broker_synonyms: tuple[str, ...] = ()
    # Topic configs: why no value but the default is accepted; empty: the config is supported.
    unsupported: str = ""

    @property
    def attribute(self) -> str:
        """The field that holds the value."""
        return self.name.replace(".", "_")

    @property
    def range_text(self) -> str:
        """The allowed values in words; empty where the type says it all."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.low is not None and self.high is not None:
            return f"from {self.low} to {self.high}"
        if self.low is not None:
            return f"at least {self.low}"
        return f"at most {self.high}" if self.high is not None else ""

    def parse(self, text: str) -> Value:
        """Return the value of `text`, by the rules of Kafka's ConfigDef (it ignores blanks around the text)."""
        text = text.strip(BLANKS)
        match self.type:
            case ConfigType.BOOLEAN:
                value = {"true": True, "false": False}.get(text.lower())
                if value is None:
                    raise ConfigError(self.name, text, "must be true or false")
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                value = self._parse_integer(text)
            case ConfigType.DOUBLE:
                value = self._parse_double(text)
            case ConfigType.LIST:
                value = tuple(part.strip(BLANKS) for part in text.split(",")) if text else ()
                # As in Kafka, a policy that is named twice is one.
                value = tuple(dict.fromkeys(value)) if self.choices else value
            case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD:
                value = text
        self.validate(value)
        return value

    def check_size(self, text: str) -> None:
        """Raise ConfigError for a text that no client may set."""
        if len(text) > MAX_VALUE_CHARS and self.type is not ConfigType.PASSWORD:
            raise ConfigError(self.name, text, f"must have at most {MAX_VALUE_CHARS} characters")

    def validate(self, value: Value) -> None:
        """Raise ConfigError unless the value is in range. None is allowed where the default is None."""
        if value is None and self.default is None:
            return
        python_type, words = _TYPES[self.type]
        if not isinstance(value, python_type) or (isinstance(value, bool) and self.type != ConfigType.BOOLEAN):
            shown = HIDDEN if self.type is ConfigType.PASSWORD else value
            raise ConfigError(self.name, shown, f"must be {words}")
        reason = self._out_of_range(value) or (self.check(value) if self.check else None)
        if reason:
            raise ConfigError(self.name, self.shown(value), reason)

    def shown(self, value: Value) -> str | None:
        """Return the text of a value for a log or an error, where a password must not stand."""
        return HIDDEN if self.type is ConfigType.PASSWORD and value is not None else self.format(value)

    def format(self, value: Value) -> str | None:
        """Return the text of a value, as DescribeConfigs and a properties file write it."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return repr(value).replace("e+", "E").replace("e", "E").replace("inf", "Infinity")  # as Java does
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def _parse_integer(self, text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DIGITS:
            raise ConfigError(self.name, text, self._wanted())
        value, bits = int(text), _BITS[self.type]
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ConfigError(self.name, text, self._wanted())
        return value

    def _parse_double(self, text: str) -> float:
        digits = text.lstrip("+-.")
        try:
            if "_" in text or not text.isascii() or not (digits[:1].isdigit() or digits == "Infinity"):
                raise ValueError
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
        words = f"must be {_TYPES[self.type][1]}"
        return f"{words}, {self.range_text}" if self.range_text else words


def define(
    type: ConfigType, default: T, *, doc: str, check: Callable[[Any], str | None] | None = None, **rest: Any
) -> T:
    """Return a dataclass field that defines a config: `rest` are fields of its ConfigDef.

    The field's name gives the config's (`_` for `.`).
    """
    row = ConfigDef("", type, cast(Value, default), doc, check=check, **rest)
    return field(default=default, metadata={"config": row})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class ConfigTable:
    """A dataclass of values that do not change.

    These methods serve every table: to generate them for the 230 fields of BrokerConfig took a twentieth of a start.
    """

    # Of all fields, by name, and the fields whose values are made or must be given.
    _defaults: ClassVar[dict[str, Any]]
    _made: ClassVar[list[Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)
        made = fields(cast(Any, cls))
        cls._defaults = {each.name: each.default for each in made}
        cls._made = [each for each in made if each.default is MISSING]

    if not TYPE_CHECKING:  # checkers make the initialiser from the fields

        def __init__(self, **values: Any) -> None:
            found = vars(self)
            found.update(self._defaults)
            found.update(values)
            if len(found) > len(self._defaults):
                unknown = ", ".join(each for each in values if each not in self._defaults)
                raise TypeError(f"{type(self).__name__}() does not know {unknown}")
            for each in self._made:
                if each.name not in values:
                    found[each.name] = each.default_factory()
            self.__post_init__()

    def __post_init__(self) -> None:
        """Check the values together."""

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        compared = [each.name for each in fields(cast(Any, self)) if each.compare]
        return all(getattr(self, name) == getattr(other, name) for name in compared)


def definitions_of(table: type) -> Mapping[str, ConfigDef]:
    """Return the rows of a table of configs by Kafka's name, in the order of the fields."""
    found: dict[str, ConfigDef] = {}
    for each in fields(table):
        row = cast("ConfigDef | None", each.metadata.get("config"))
        if row is not None:
            name = each.name.replace("_", ".")
            found[name] = row._replace(name=name)
    return found


@dataclass(slots=True)
class DynamicConfigs:
    """The layers of dynamic configs, by config name. They take precedence over the configs of the start."""

    # For this broker alone: the strongest layer.
    broker: Mapping[str, str] = field(default_factory=dict[str, str])
    # For every broker of the cluster.
    cluster: Mapping[str, str] = field(default_factory=dict[str, str])
    # The values of the start that the layers replaced.
    # Invariant: its names are those of both layers.
    replaced: dict[str, Value] = field(default_factory=dict[str, Value])
