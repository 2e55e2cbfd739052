"""The door of the registry: what a request of HTTP becomes for the API, and what an answer or an error becomes in HTTP.

In this order: the login, the host, for a change that no other web page sends it, the path, the body.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from hmac import compare_digest
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

from ..web.connection import Limits
from ..web.exchange import HttpError, Request, Response
from ..web.guesses import Guesses, login_in
from ..web.origin import is_from_elsewhere, names_known_host
from .api import Text, answer
from .errors import RegistryError
from .schemas_log import SchemasLog

_log = logging.getLogger(__name__)

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_PLAIN_TYPE = "application/json"
_JSON_TYPES = {CONTENT_TYPE, "application/vnd.schemaregistry+json", _PLAIN_TYPE, "application/octet-stream"}
# A schema of the largest size whose every character is escaped, with its references.
MAX_BODY_BYTES = 3 << 20
LIMITS = Limits(head_bytes=16 << 10, body_bytes=MAX_BODY_BYTES, bodies_bytes=64 << 20, idle_s=60.0)
MAX_FIELDS = 50
# A request has few values, whose texts may be long. Python makes values in one go, in which the loop stands still.
MAX_BYTES_BESIDE_TEXTS = 64 << 10


class Door:
    """Lets requests in to the API. `login` is "name:password", None if anybody may come in."""

    def __init__(self, log: SchemasLog, login: str | None, hosts: Collection[str]) -> None:
        self._log = log
        self._hosts = hosts
        self._guesses = Guesses()
        self._login = login

    async def look_at_head(self, request: Request) -> Response | None:
        """Return the response to a request that does not come in, before its body is read."""
        try:
            self._check(request)
        except RegistryError as error:
            if error.status == 401 and "authorization" in request.headers:
                await self._guesses.refuse(request, login_in(request).partition(":")[0])
            return _error(error.status, error.code, error.message)
        return None

    async def answer(self, request: Request) -> Response:
        """Return the response to a request that came in, whatever happens."""
        try:
            found = await self._ask(request)
        except RegistryError as error:
            return _error(error.status, error.code, error.message)
        except ValueError as error:
            return rejection(HttpError(400, str(error)))
        except Exception:  # noqa: BLE001 - a fault in one request is logged, and the others go on
            _log.exception("a request failed")
            return _error(500, 50001, "Error in the registry: its log says more")
        kind = _PLAIN_TYPE if request.headers.get("accept") == _PLAIN_TYPE else CONTENT_TYPE
        # Older registries stored texts with half a surrogate pair, which JSON can name.
        content = found.encode("utf-8", "backslashreplace") if isinstance(found, Text) else _json_bytes(found)
        return Response(200, content, kind)

    def _check(self, request: Request) -> None:
        """Raise RegistryError for a request that does not come in."""
        if self._login is not None:
            given = login_in(request)
            if not given or not compare_digest(given.encode(), self._login.encode()):
                raise RegistryError(401, "Unauthorized")
        elif not names_known_host(request, self._hosts):
            # Where there is a login, a page that comes by a name of its own does not have it.
            text = "Forbidden: the registry is not served under that host; `odradek registry --allow-host` allows one"
            raise RegistryError(403, text)
        # Browsers ask nobody before they send a POST without a content type.
        if request.method not in ("GET", "HEAD") and is_from_elsewhere(request):
            raise RegistryError(403, "Forbidden: changes do not come from other web pages")

    async def _ask(self, request: Request) -> Any:
        parts, method = _parts(request.path), request.method
        body = _json_body(request) if method in ("POST", "PUT") else {}
        query = dict(parse_qsl(request.query, keep_blank_values=True, max_num_fields=MAX_FIELDS))
        return await answer(self._log, "GET" if method == "HEAD" else method, parts, query, body)


def rejection(error: HttpError) -> Response:
    """Return the response of a request that is refused before the API sees it."""
    return _error(error.status, error.status, f"HTTP {error.status} {HTTPStatus(error.status).phrase}: {error.message}")


def _parts(path: str) -> list[str]:
    """Return the parts of a path. Raises RegistryError, ValueError for bytes that are no UTF-8."""
    parts = [unquote(part, errors="strict") for part in path.strip("/").split("/")]
    if "" in parts and len(parts) > 1:
        # Without it the path would be another one, which may mean something.
        raise RegistryError(404, "HTTP 404 Not Found")
    return parts


def _json_body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", _PLAIN_TYPE)
    if kind.partition(";")[0].strip().lower() not in _JSON_TYPES:
        raise RegistryError(415, "HTTP 415 Unsupported Media Type")
    if _bytes_beside_texts(request.body) > MAX_BYTES_BESIDE_TEXTS:
        text = f"the body has more than {MAX_BYTES_BESIDE_TEXTS} bytes outside of its texts"
        raise RegistryError(413, f"HTTP 413 Request Entity Too Large: {text}")
    try:
        value = json.loads(request.body.decode("utf-8-sig") or "{}")
    except RecursionError:
        raise RegistryError(400, "HTTP 400 Bad Request: the body is nested too deep") from None
    if not isinstance(value, dict):
        raise RegistryError(400, "HTTP 400 Bad Request: the body is no JSON object")
    return cast("dict[str, Any]", value)


def _bytes_beside_texts(body: bytes) -> int:
    """Return how many bytes of JSON are in no text, quotes included."""
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = bare.count(b'"')
    if quotes > MAX_BYTES_BESIDE_TEXTS:
        return quotes
    return quotes + sum(map(len, bare.split(b'"')[::2]))


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _error(status: int, code: int, message: str) -> Response:
    headers = (("www-authenticate", 'Basic realm="schema registry"'),) if status == 401 else ()
    return Response(status, _json_bytes({"error_code": code, "message": message}), CONTENT_TYPE, headers)
