"""From a request to its answer: the checks at the door, the page of a path, and what an error looks like.

In this order: the host, that no other web page loads it, the files that every page loads, the login, the route, and for
a POST its origin, its token and whether changes are allowed. GET and HEAD change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from ..client import KafkaError
from ..client.errors import AuthenticationFailed
from ..web.exchange import HttpError, Request, Response
from .door import security
from .door.login import Login, refused
from .history.history import History
from .history.sight import Sight
from .routes import ROUTES, Route
from .visit import HTML, House, Visit

_log = logging.getLogger(__name__)

MAX_FIELDS = 200
_NO_FIELDS: Mapping[str, str] = {}
_STATIC = "/static/"
_STATIC_FOLDER = Path(__file__).parent / "static"
_STATIC_TYPES = {
    "console.css": "text/css; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "sse.js": "text/javascript; charset=utf-8",
    "uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_STATIC_HEADERS = (
    ("x-content-type-options", "nosniff"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "max-age=300"),
)


class App:
    """Answers the requests of one console."""

    def __init__(self, house: House, login: Login, history: History, hosts: frozenset[str], *, tls: bool) -> None:
        self._house = house
        self._login = login
        self._history = history
        self._hosts = hosts
        self._tls = tls
        self._tokens = security.Tokens()

    async def look_at_head(self, request: Request) -> Response | None:
        """Return the response to a request that does not come in, before its body is read."""
        return await self._guarded(request, self._look_at_head)

    async def answer(self, request: Request) -> Response:
        """Return the response to a request, whatever happens."""
        response = _static_file(request.path) or await self._guarded(request, self._answer)
        assert response is not None
        return response

    async def _look_at_head(self, request: Request) -> None:
        security.check_host(request, self._hosts)
        security.check_reader(request)
        if not request.path.startswith(_STATIC):
            await self._login.enter(request)

    async def _guarded(
        self, request: Request, step: Callable[[Request], Awaitable[Response | None]]
    ) -> Response | None:
        """Take a step, and make a page of each error."""
        try:
            response = await step(request)
            if response is None:
                return None
        except HttpError as error:
            response = self._error(error.status, error.message, error.headers)
        except AuthenticationFailed as error:
            # A user's password was changed or deleted; or it is the console's own that the cluster does not take.
            gone = refused() if await self._login.forget(request) else HttpError(502, error.message)
            response = self._error(gone.status, gone.message, gone.headers)
        except KafkaError as error:
            response = self._error(502, error.message)
        except Exception:  # noqa: BLE001 - a fault in one page is logged, and the others go on
            _log.exception("%s %s could not be answered", request.method, request.path)
            response = self._error(500, "Something is wrong with this console: its log says more.")
        headers = (*response.headers, *security.HEADERS)
        return Response(response.status, response.body, response.content_type, headers)

    async def _answer(self, request: Request) -> Response:
        user, cluster = await self._login.enter(request)
        route, names = _route(request)
        session = self._tokens.session_of(request)
        form = self._checked_form(request, session) if request.method == "POST" else _NO_FIELDS
        current = session or self._tokens.new_session()
        visit = Visit(
            request, names, _pairs(request.query), form, self._tokens.token(current), user, cluster,
            Sight(self._history, cluster, self._login.sees_all), self._house, route.section,
        )  # fmt: skip
        response = await cluster.answer(route.view(visit))
        if session is not None:
            return response
        cookie = ("set-cookie", self._tokens.cookie(request, current, secure=self._tls))
        return Response(response.status, response.body, response.content_type, (*response.headers, cookie))

    def _checked_form(self, request: Request, session: str | None) -> Mapping[str, str]:
        """Return what was posted. Raises HttpError unless this console takes it."""
        security.check_origin(request)
        if self._house.read_only:
            raise HttpError(403, "this console is read-only (--read-only)")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise HttpError(415, "changes are sent by the forms of this console")
        form = _pairs(request.body.decode("ascii", "replace"))
        self._tokens.check(session, form)
        return form

    def _error(self, status: int, message: str, headers: Sequence[tuple[str, str]] = ()) -> Response:
        values = {
            "title": "Error", "section": "", "address": self._house.address, "read_only": self._house.read_only,
            "user": "", "status": status, "message": message,
        }  # fmt: skip
        text = self._house.templates.render("error.html", values)
        return Response(status, text.encode("utf-8", "backslashreplace"), HTML, headers)


def _route(request: Request) -> tuple[Route, list[str]]:
    """Return the route of a request and the variable parts of its path. Raises HttpError."""
    try:
        parts = [unquote(part, errors="strict") for part in request.path.split("/")[1:]]
    except UnicodeDecodeError:
        raise HttpError(400, "the path is no UTF-8") from None
    found = ROUTES.find(parts)
    if found is None:
        raise HttpError(404, "There is no such page.")
    route, names = found
    if request.method not in route.methods:
        raise HttpError(405, f"This page takes {', '.join(route.methods)}.", [("allow", ", ".join(route.methods))])
    return route, names


def _pairs(text: str) -> dict[str, str]:
    """Return the fields of a query or a form. Raises HttpError."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except (ValueError, UnicodeDecodeError):
        raise HttpError(400, f"fields are UTF-8, and {MAX_FIELDS} at most") from None


@cache
def _content(name: str) -> bytes:
    return (_STATIC_FOLDER / name).read_bytes()


def _static_file(path: str) -> Response | None:
    """Return a file that pages load, None where there is none. No path of a request reaches the file system."""
    name = path.removeprefix(_STATIC)
    if not path.startswith(_STATIC) or name not in _STATIC_TYPES:
        return None
    return Response(200, _content(name), _STATIC_TYPES[name], _STATIC_HEADERS)
