"""A schema registry as clients need it: schemas by id, ids of schemas, the latest version of a subject.

Answers are kept within bounds: an id never changes its schema, a latest version is asked for again after a while.
Methods block. A caller that may not wait uses `registry.at_once`, which raises SchemaMissing instead of asking.

HTTP requests to it are by the standard library and in the calling thread. They are few, because what they bring is
kept. Registries that do not answer are tried again, one after another, until the time is over.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# JSON has no types.

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit
from weakref import WeakSet

from ..core.serialization import SchemaMissing
from ..errors import InvalidOption, SchemaRegistryRefused, SchemaRegistryUnavailable

T = TypeVar("T")

# Of each kind. A program has some hundred schemas; ids that nobody has would fill the memory otherwise.
MAX_KEPT = 1_000
# How long an answer that something does not exist holds.
ABSENCE_S = 10.0
_NOT_FOUND = 404
_NOT_ALLOWED = 405
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
# A schema has at most 1 MiB, which escapes make larger.
MAX_ANSWER_BYTES = 8 << 20
_READ_BYTES = 64 << 10
_PAUSE_S = 0.1
# What another registry, or the same one later, may do better.
_TRY_AGAIN = {429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class Reference:
    """What a schema names another one by, and where that one is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema: its text, its type (AVRO, JSON or PROTOBUF) and what it refers to."""

    text: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the body of a request."""
        made: dict[str, Any] = {"schema": self.text, "schemaType": self.type}
        references = [{"name": each.name, "subject": each.subject, "version": each.version} for each in self.references]
        return made | {"references": references} if references else made


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema that the registry has, as a version of a subject."""

    id: int
    version: int
    schema: Schema


class Answers:
    """Answers that are kept: the MAX_KEPT that were used last, each until its time is over."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, tuple[Any, float]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Any) -> Any:
        """Return an answer; raise one that is an exception. Raises KeyError if there is none."""
        with self._lock:
            if self._kept[key][1] < time.monotonic():
                del self._kept[key]
            answer, _ = self._kept[key]
            self._kept.move_to_end(key)
        if isinstance(answer, SchemaRegistryRefused):
            raise answer.with_traceback(None)
        return answer

    def keep(self, key: Any, answer: object, seconds: float = float("inf")) -> None:
        """Keep an answer for so long."""
        with self._lock:
            self._kept[key] = (answer, time.monotonic() + seconds)
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)


class SchemaRegistry:
    """A client of a schema registry. Threads and event loops may share it; it can be pickled."""

    def __init__(
        self,
        url: str,
        *,
        login: str | None = None,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        timeout_ms: float = 10_000,
        latest_ttl_ms: float = 60_000,
    ) -> None:
        """`url` may name several registries over one topic, with commas between. `latest_ttl_ms` is how long a latest
        version counts as the latest. Raises InvalidOption.
        """
        if latest_ttl_ms < 0:
            raise InvalidOption(f"latest_ttl_ms is milliseconds, not {latest_ttl_ms}")
        self._door = HttpDoor(url, login, ca_file, cert_file, key_file, timeout_ms)
        self._latest_ttl_s = latest_ttl_ms / 1000
        self._begin()

    def _begin(self) -> None:
        self._answers = Answers()
        # One thread: who asks for what another one is asking for waits, and finds the answer.
        self._thread = ThreadPoolExecutor(1, "schema-registry")
        # The registry for callers that may not wait.
        self.at_once: SchemaRegistry = _OnlyKept(self)
        _clients.add(self)

    def __getstate__(self) -> tuple[HttpDoor, float]:
        return self._door, self._latest_ttl_s

    def __setstate__(self, state: tuple[HttpDoor, float]) -> None:
        self._door, self._latest_ttl_s = state
        self._begin()

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._door!r})"

    # -- Schemas. All raise SchemaRegistryRefused, SchemaRegistryUnavailable.

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id."""
        return self._kept(("id", schema_id), lambda: _schema(self._door.ask("GET", f"/schemas/ids/{schema_id}")))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Register a schema as the next version of a subject, unless it has it. Return its id."""
        return self._id("/versions", subject, schema, normalize)

    def look_up(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Return the id of a schema that a subject has."""
        return self._id("", subject, schema, normalize)

    def _id(self, place: str, subject: str, schema: Schema, normalize: bool) -> int:
        def ask() -> int:
            path = f"/subjects/{quote(subject, safe='')}{place}{_flag(normalize)}"
            return _number(self._door.ask("POST", path, schema.to_json()), "id")

        return self._kept((f"id{place}", subject, schema, normalize), ask)

    def latest(self, subject: str) -> Registered:
        """Return the latest version of a subject, or what it was `latest_ttl_ms` ago."""
        return self._kept(("latest", subject), lambda: self._version(subject, "latest"), self._latest_ttl_s)

    def version(self, subject: str, number: int) -> Registered:
        """Return a version of a subject, also a deleted one: others may refer to it."""
        return self._kept(("version", subject, number), lambda: self._version(subject, f"{number}?deleted=true"))

    def referenced(self, schema: Schema) -> dict[str, str]:
        """Return the texts behind the references of a schema by name: what refers to another comes after it."""
        made: dict[str, str] = {}
        self._collect(schema, made, set())
        return made

    def subjects(self) -> list[str]:
        """Return all subjects."""
        return cast("list[str]", self._door.ask("GET", "/subjects"))

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject."""
        return cast("list[int]", self._door.ask("GET", f"/subjects/{quote(subject, safe='')}/versions"))

    def compatibility(self, subject: str | None = None) -> str:
        """Return the level of a subject, that of all where it has none of its own."""
        path = "/config" if subject is None else f"/config/{quote(subject, safe='')}?defaultToGlobal=true"
        return str(self._door.ask("GET", path)["compatibilityLevel"])

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Delete a subject, or one version of it; return the versions that went. Their ids stay readable.

        With `permanent`, what was deleted before goes for good.
        """
        path = f"/subjects/{quote(subject, safe='')}" + ("" if version is None else f"/versions/{version}")
        try:
            answer = self._door.ask("DELETE", f"{path}?permanent=true" if permanent else path)
        finally:
            # It may have been done without an answer.
            self.forget()
        return cast("list[int]", answer if isinstance(answer, list) else [answer])

    def why_incompatible(self, subject: str, schema: Schema, version: int | None = None) -> list[str]:
        """Return why a schema may not be the next version of a subject, or follow one version; nothing if it may."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
        try:
            # With the versions that the level of the subject asks for.
            place = path if version is None else f"{path}/{version}"
            answer = self._door.ask("POST", f"{place}?verbose=true", schema.to_json())
        except SchemaRegistryRefused as error:
            if version is not None or error.registry_code not in (_NOT_FOUND, _NOT_ALLOWED):
                raise
            # Some registries compare with one version alone.
            answer = self._door.ask("POST", f"{path}/latest?verbose=true", schema.to_json())
        return (
            [] if answer.get("is_compatible") else cast("list[str]", answer.get("messages") or ["no reason is given"])
        )

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of a subject, or of all that have none of their own."""
        path = "/config" if subject is None else f"/config/{quote(subject, safe='')}"
        self._door.ask("PUT", path, {"compatibility": level})

    def forget(self) -> None:
        """Forget all answers, also those that are on their way."""
        self._answers = Answers()

    # -- Parts

    def _kept(self, key: Any, ask: Callable[[], T], seconds: float = float("inf")) -> T:
        try:
            return self._answers.get(key)
        except KeyError:
            return self._thread.submit(self._ask, key, ask, seconds).result()

    def _ask(self, key: Any, ask: Callable[[], T], seconds: float) -> T:
        answers = self._answers
        try:
            return answers.get(key)
        except KeyError:
            pass
        try:
            answer = ask()
        except SchemaRegistryRefused as error:
            if error.status == _NOT_FOUND:
                answers.keep(key, error, ABSENCE_S)
            raise
        answers.keep(key, answer, seconds)
        return answer

    def _version(self, subject: str, number: str) -> Registered:
        found = self._door.ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{number}")
        return Registered(_number(found, "id"), _number(found, "version"), _schema(found))

    def _collect(self, schema: Schema, made: dict[str, str], seen: set[Reference]) -> None:
        for each in schema.references:
            if each in seen:
                continue
            seen.add(each)
            if len(seen) > MAX_REFERENCES:
                raise InvalidOption(f"a schema refers to more than {MAX_REFERENCES} others")
            inner = self.version(each.subject, each.version).schema
            self._collect(inner, made, seen)
            made.setdefault(each.name, inner.text)


# As in the registry.
MAX_REFERENCES = 100


_clients: WeakSet[SchemaRegistry] = WeakSet()


def _after_fork() -> None:
    """Begin anew: the threads, and who would release the locks, are in the parent process."""
    for each in list(_clients):
        each._begin()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _OnlyKept(SchemaRegistry):
    """A registry that has the answers of another one that are kept, and says what the other one has to ask."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._door, self._latest_ttl_s = registry.__getstate__()
        self.at_once = self

    def _kept(self, key: Any, ask: Callable[[], T], seconds: float = float("inf")) -> T:
        registry = self._registry
        try:
            return registry._answers.get(key)
        except KeyError:
            raise SchemaMissing(lambda: registry._thread.submit(registry._ask, key, ask, seconds)) from None


def _flag(normalize: bool) -> str:
    return "?normalize=true" if normalize else ""


def _number(answer: Any, name: str) -> int:
    number = answer.get(name) if isinstance(answer, dict) else None
    if type(number) is not int:
        raise SchemaRegistryRefused(200, 0, f"an answer without {name}: {answer!r:.200}")
    return number


def _schema(answer: Any) -> Schema:
    try:
        references = [
            Reference(each["name"], each["subject"], each["version"]) for each in answer.get("references") or ()
        ]
        schema = Schema(answer["schema"], answer.get("schemaType") or "AVRO", tuple(references))
    except (KeyError, TypeError, AttributeError):
        raise SchemaRegistryRefused(200, 0, f"an answer without a schema: {answer!r:.200}") from None
    if not isinstance(schema.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SchemaRegistryRefused(200, 0, f"an answer without a schema: {answer!r:.200}")
    return schema


# -- HTTP


@dataclass(frozen=True, slots=True)
class HttpDoor:
    """The addresses of registries over one topic, and how to get in."""

    # Several are separated by commas.
    url: str
    # "NAME:PASSWORD", for basic authentication.
    login: str | None = None
    # A file of certificates (PEM) to trust instead of the system's.
    ca_file: str | None = None
    # A client certificate, with its key in the same file or in `key_file`.
    cert_file: str | None = None
    key_file: str | None = None
    timeout_ms: float = 10_000

    def __post_init__(self) -> None:
        if not _are_addresses(self.url):
            # The text would show the password of one.
            raise InvalidOption("a registry is http://HOST:PORT or https://HOST:PORT")
        if self.login is not None and ":" not in self.login:
            raise InvalidOption("the login of a registry is NAME:PASSWORD")
        if not 0 < self.timeout_ms < 1 << 31:
            raise InvalidOption(f"timeout_ms is milliseconds above 0, not {self.timeout_ms}")
        self._context()

    def __repr__(self) -> str:
        return f"HttpDoor({', '.join(f'{each.scheme}://{each.hostname}' for each in self._addresses())})"

    def _addresses(self) -> list[SplitResult]:
        return [urlsplit(each.strip()) for each in self.url.split(",")]

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of an answer. Raises SchemaRegistryRefused, SchemaRegistryUnavailable."""
        until = time.monotonic() + self.timeout_ms / 1000
        pause_s = _PAUSE_S
        while True:
            failed: list[str] = []
            addresses = self._addresses()
            for number, address in enumerate(addresses):
                # A part for each that is left: one that takes what it is sent and says nothing must not use it all up.
                until_this = time.monotonic() + (until - time.monotonic()) / (len(addresses) - number)
                try:
                    return self._ask(address, method, path, body, until_this)
                except (OSError, http.client.HTTPException) as error:
                    why = getattr(error, "strerror", None) or error
                    failed.append(f"{address.hostname}:{address.port or ''}: {why}")
                except _Unable as unable:
                    failed.append(str(unable))
            if time.monotonic() + pause_s >= until:
                raise SchemaRegistryUnavailable(f"no schema registry answers: {'; '.join(failed)}")
            time.sleep(pause_s)
            pause_s *= 2

    def _ask(self, address: SplitResult, method: str, path: str, body: object, until_s: float) -> Any:
        connection = self._connection(address, max(until_s - time.monotonic(), 0.01))
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, address.path.rstrip("/") + path, data, self._headers(address))
            # One that says "connection: close" outlives its connection.
            with connection.getresponse() as answer:
                content = _content(answer, until_s)
        finally:
            connection.close()
        return _result(answer.status, content, f"{method} {path}")

    def _connection(self, address: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
        host = address.hostname or ""
        if address.scheme == "http":
            return http.client.HTTPConnection(host, address.port or 80, timeout=timeout_s)
        return http.client.HTTPSConnection(host, address.port or 443, timeout=timeout_s, context=self._context())

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                # Without a password OpenSSL would ask the terminal for one.
                context.load_cert_chain(self.cert_file, self.key_file, "")
        except OSError as error:
            why = error.strerror or error
            raise InvalidOption(f"the certificates of the registry cannot be read: {why}") from error
        return context

    def _headers(self, address: SplitResult) -> dict[str, str]:
        headers = {"content-type": _CONTENT_TYPE, "accept": f"{_CONTENT_TYPE}, application/json"}
        login = self.login
        if login is None and address.username is not None:
            # In a URL, what else would end the name or the password is escaped.
            login = f"{unquote(address.username)}:{unquote(address.password or '')}"
        return headers if login is None else headers | {"authorization": f"Basic {b64encode(login.encode()).decode()}"}


def _are_addresses(url: str) -> bool:
    try:
        addresses = [urlsplit(each.strip()) for each in url.split(",")]
        # A port that is none is an error only where it is read.
        return all(each.scheme in ("http", "https") and each.hostname and each.port != 0 for each in addresses)
    except ValueError:
        return False


class _Unable(Exception):
    """A registry that answers, and cannot do what it should now."""


def _content(answer: http.client.HTTPResponse, until_s: float) -> bytes:
    """Return the body of an answer, and one byte more than is taken at most. Raises OSError, HTTPException.

    The socket's time-out is of each read, and an answer that comes byte by byte would take hours.
    """
    content = bytearray()
    while len(content) <= MAX_ANSWER_BYTES and (piece := answer.read1(_READ_BYTES)):
        content += piece
        if time.monotonic() > until_s:
            raise TimeoutError("the answer takes too long")
    if answer.length and len(content) <= MAX_ANSWER_BYTES:
        raise http.client.IncompleteRead(bytes(content[:100]), answer.length)
    return bytes(content)


def _result(status: int, content: bytes, request: str) -> Any:
    if len(content) > MAX_ANSWER_BYTES:
        raise SchemaRegistryRefused(status, 0, f"{request}: the answer has more than {MAX_ANSWER_BYTES} bytes")
    try:
        value: Any = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if status in _TRY_AGAIN:
        raise _Unable(f"{request}: {status} {_message(value, content)}")
    if status != 200 or value is None:
        code = value.get("error_code") if isinstance(value, dict) else None
        text = f"{request}: {status} {_message(value, content)}"
        raise SchemaRegistryRefused(status, code if isinstance(code, int) else status, text)
    return value


def _message(value: Any, content: bytes) -> str:
    return str(value.get("message"))[:2_000] if isinstance(value, dict) else content[:200].decode(errors="replace")
