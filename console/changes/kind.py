"""What a kind of change is: the fields of its form, and what makes a change of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from ...client import Admin
from ...web.exchange import HttpError
from ..journal import Change
from ..visit import Visit, number_in


class InvalidForm(HttpError):
    """Fields that make no change; the text says which, and why."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form. `kind` is text, number, area, password or hidden; with `choices` it is one of these."""

    name: str
    label: str
    kind: str = "text"
    default: str = ""
    hint: str = ""
    choices: Sequence[str] = ()
    required: bool = False


Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of change. `prepare` returns the change that fields make, once the cluster is reached.

    Raises HttpError, KafkaError.
    """

    title: str
    fields: Sequence[Field]
    prepare: Callable[[Visit, Admin, Fields], Awaitable[Change]]
    is_dangerous: bool = False


def required(fields: Fields, name: str) -> str:
    """Return a field that must not be empty. Raises InvalidForm."""
    if not fields[name]:
        raise InvalidForm(f"{name} is empty")
    return fields[name]


def whole_number(fields: Fields, name: str, low: int = 0, high: int = (1 << 31) - 1) -> int | None:
    """Return a number, None for an empty field. Raises HttpError."""
    return number_in(fields, name, None, low, high)


def pairs(text: str) -> dict[str, str]:
    """Return NAME=VALUE of each line. Raises InvalidForm."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise InvalidForm(f"a line is NAME=VALUE, not {line[:100]!r}")
        found[name.strip()] = value.strip()
    return found
