"""From values to HTML: the templates, and how numbers, times and texts look.

Promise: a value is text, whatever it contains. Jinja escapes what is HTML, and `visible` shows characters that would
hide or turn around others. Only templates write HTML; no value of a cluster is ever marked as safe.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..client.core.record_json import utc_text

_TEMPLATES = Path(__file__).parent / "templates"
# Control characters but tab and newline, what changes the direction of text or has no width, and lone surrogates.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
# Of a value on its own page: what is nested deep has a hundred times as many characters as it had.
MAX_PRETTY_CHARS = 500_000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SECONDS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def visible(text: str) -> str:
    """Return a text whose hidden characters are escapes, as Python writes them."""
    return HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _finalize(value: Any) -> Any:
    if value is None:
        return "–"
    return visible(value) if type(value) is str else value


def number(value: float | None) -> str:
    """Return a number with thin spaces between its thousands."""
    if value is None:
        return "–"
    text = (
        f"{value:,.1f}" if isinstance(value, float) and not value.is_integer() and abs(value) < 100 else f"{value:,.0f}"
    )
    return text.replace(",", "\u202f")


def size(value: float | None) -> str:
    """Return bytes with their unit."""
    if value is None:
        return "–"
    left = float(value)
    for unit in _UNITS:
        if left < 1024 or unit == _UNITS[-1]:
            return f"{left:.0f}\u202f{unit}" if unit == "B" or left >= 100 else f"{left:.1f}\u202f{unit}"
        left /= 1024
    raise AssertionError


def moment(ms: float | None) -> str:
    """Return a time as ISO 8601 in UTC with milliseconds."""
    if ms is None or ms < 0:
        return "–"
    text = utc_text(int(ms))
    return text.replace("T", " ") if isinstance(text, str) else f"{text} ms"  # a timestamp beyond the year 9999


def duration(seconds: float | None) -> str:
    """Return a duration in the largest units that suit it."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    left, parts = int(seconds), list[str]()
    for length, unit in _SECONDS:
        if left >= length:
            parts.append(f"{left // length} {unit}")
            left %= length
    return " ".join(parts[:2])


def link(path: str, **query: Any) -> str:
    """Return a URL. `path` is written here; what comes from outside is in the query. None is left out."""
    given = {name.rstrip("_"): str(value) for name, value in query.items() if value is not None and value != ""}
    return path + ("?" + urlencode(given, errors="surrogatepass") if given else "")


def segment(name: str) -> str:
    """Return a name as one segment of a path."""
    return quote(name, safe="", errors="surrogatepass")


def pretty(value: Any) -> str:
    """Return a decoded value as JSON of several lines, cut where it is long: each level is indented by two more."""
    parts, left = list[str](), MAX_PRETTY_CHARS
    for part in json.JSONEncoder(ensure_ascii=False, indent=2, default=str).iterencode(value):
        parts.append(part[:left])
        left -= len(part)
        if left <= 0:
            return "".join(parts) + "…"
    return "".join(parts)


class Templates:
    """The templates of the pages, which are compiled once."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True, finalize=_finalize, auto_reload=False,
        )  # fmt: skip
        self._environment.filters.update(
            number=number, size=size, moment=moment, duration=duration, segment=segment, pretty=pretty
        )
        cast("dict[str, Any]", self._environment.globals).update(link=link)

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        """Return a page."""
        return self._environment.get_template(name).render(values)

    def macro(self, template: str, name: str, *values: Any) -> Markup:
        """Return what a macro makes of values: a part of a page."""
        return getattr(self._environment.get_template(template).module, name)(*values)
