"""The files that pages load: read once, by names that are known. No path of a request reaches the file system."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ...web.exchange import Response

STATIC = "/static/"
_FOLDER = Path(__file__).parent.parent / "static"
_TYPES = {
    "console.css": "text/css; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "sse.js": "text/javascript; charset=utf-8",
    "uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HEADERS = (
    ("x-content-type-options", "nosniff"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "max-age=300"),
)


@cache
def _content(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()


def static_file(path: str) -> Response | None:
    """Return the file of a path, None where there is none."""
    name = path.removeprefix(STATIC)
    if not path.startswith(STATIC) or name not in _TYPES:
        return None
    return Response(200, _content(name), _TYPES[name], _HEADERS)
