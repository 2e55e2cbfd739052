"""HTTP/1.1: one connection of a client, by h11. Requests of a connection are answered one after another.

Bounds: a request's head and body, the bytes of all bodies that are being received, and the time that a request may take
to arrive and a piece of a response to leave.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import h11

from .exchange import HttpError, Request, Response

_log = logging.getLogger(__name__)

# A client that sends nothing of its body for so long gives way to another.
SILENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection, and all together, may take."""

    # A head of twice as many bytes is refused: h11 counts what is not complete yet.
    head_bytes: int = 16 << 10
    body_bytes: int = 1 << 20
    # Of all connections together: a body is kept until it is complete.
    bodies_bytes: int = 16 << 20
    # For a request to arrive, and for a piece of a response to leave.
    idle_s: float = 60.0
    # For a whole response to leave; None for one that has no end.
    response_s: float | None = None
    # A connection takes one request after another, or one alone.
    keeps_open: bool = True


class BodyMemory:
    """The bytes of the bodies that all connections hold, fair by address.

    Where there is no room, the address that holds the most gives way, or a client that sends nothing. A body that is
    whole has its room until its request is answered.
    """

    def __init__(self) -> None:
        self.used_bytes = 0
        # By connection: its bytes, and when the last of them came; None of all.
        self._held: dict[Connection, tuple[int, float | None]] = {}

    def take(self, connection: Connection, size: int, limit_bytes: int) -> bool:
        """Count more bytes for a connection. False: there is no room for them."""
        while self.used_bytes + size > limit_bytes:
            given = self._who_gives_way(connection, size)
            if given is None:
                return False
            given.give_way()
        self.used_bytes += size
        self._held[connection] = self.of(connection) + size, _now_s()
        return True

    def note_whole(self, connection: Connection) -> None:
        """Note that all of a connection's body has come. It does not give way: what it asks for may be under way."""
        if connection in self._held:
            self._held[connection] = self.of(connection), None

    def of(self, connection: Connection) -> int:
        """Return the bytes that a connection holds."""
        return self._held.get(connection, (0, 0.0))[0]

    def release(self, connection: Connection) -> None:
        """Forget what a connection holds."""
        self.used_bytes -= self._held.pop(connection, (0, 0.0))[0]

    def _who_gives_way(self, asker: Connection, size: int) -> Connection | None:
        sums: Counter[str] = Counter()
        for each, (held, _) in self._held.items():
            sums[each.address] += held
        others = {each: last_s for each, (_, last_s) in self._held.items() if each is not asker and last_s is not None}
        if not others:
            return None
        quietest = min(others, key=others.__getitem__)
        if _now_s() - others[quietest] > SILENT_S:
            return quietest
        heaviest = max(others, key=lambda each: sums[each.address])
        return heaviest if sums[heaviest.address] > sums[asker.address] + size else None


def _now_s() -> float:
    return asyncio.get_running_loop().time()


Answer = Callable[[Request], Awaitable[Response]]
# Looks at a request without its body: a response refuses it, and the body is not read.
LookAtHead = Callable[[Request], Awaitable[Response | None]]
Refuse = Callable[[HttpError], Response]


def plain_rejection(error: HttpError) -> Response:
    """Return a rejection as a line of text."""
    return Response(error.status, f"{error.message}\n".encode(), headers=error.headers)


class Connection:
    """One connection, from its first request to its last response. `answer` raises nothing but HttpError.

    `refuse` makes the response of an HttpError, also where a request does not reach `answer`.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Answer,
        limits: Limits,
        memory: BodyMemory,
        refuse: Refuse = plain_rejection,
        look_at_head: LookAtHead | None = None,
        address: str = "",
    ) -> None:
        self._reader, self._writer, self._answer, self._refuse = reader, writer, answer, refuse
        self._look_at_head = look_at_head
        self.address = address
        # What is drained is in the system's hands.
        writer.transport.set_write_buffer_limits(0)
        self._limits, self._memory = limits, memory
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)

    def give_way(self) -> None:
        """Close, because others need the memory of the body that is arriving."""
        self._memory.release(self)
        self._writer.transport.abort()

    async def serve(self) -> None:
        """Answer requests until the client closes, is silent for too long, or sends what is no HTTP."""
        try:
            while await self._serve_one():
                self._http.start_next_cycle()
                # Reads and writes need not wait: a client that pipelines would keep everyone else waiting.
                await asyncio.sleep(0)
        except h11.RemoteProtocolError as error:
            await self._refuse_bytes(error)
        except (h11.LocalProtocolError, TimeoutError, OSError) as error:
            _log.debug("an HTTP client went away: %s", error or "too slow")
        finally:
            self._memory.release(self)
            # What is left is for a client that does not read: a mere close would wait for it.
            self._writer.transport.abort() if self._writer.transport.get_write_buffer_size() else self._writer.close()

    async def _refuse_bytes(self, error: h11.RemoteProtocolError) -> None:
        """Tell a client why its connection ends, where that is still possible."""
        if self._writer.is_closing() or self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        try:
            await self._send(self._refuse(HttpError(error.error_status_hint, str(error))), without_body=False)
        except (OSError, TimeoutError, h11.LocalProtocolError):
            _log.debug("a client that sent no HTTP was gone before the answer")

    async def _serve_one(self) -> bool:
        """Answer one request. Tell whether another one may follow."""
        head: Any = None
        try:
            async with asyncio.timeout(self._limits.idle_s):
                head = await self._next_event()
                if not isinstance(head, h11.Request):
                    return False
                response = None if self._look_at_head is None else await self._look_at_head(self._request(head, b""))
                body = b"" if response is not None else await self._body()
            if response is None:
                response = await self._answer(self._request(head, body))
        except HttpError as error:
            response = self._refuse(error)
        self._memory.release(self)
        async with asyncio.timeout(self._limits.response_s):
            await self._send(response, without_body=head.method == b"HEAD")
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def _request(self, head: h11.Request, body: bytes) -> Request:
        path, _, query = head.target.decode("ascii").partition("?")
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        return Request(head.method.decode("ascii"), path, query, headers, body, self.address, self._reader.at_eof)

    async def _next_event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                self._writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            self._http.receive_data(await self._reader.read(self._limits.head_bytes))
        return event

    async def _body(self) -> bytes:
        """Return the body. Raises HttpError, after which the rest of it is not read."""
        # One buffer: a list of parts would take fifty times the bytes of the smallest chunks.
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            part = event.data
            if len(body) + len(part) > self._limits.body_bytes:
                raise HttpError(413, f"the request is larger than {self._limits.body_bytes} bytes")
            if not self._memory.take(self, len(part), self._limits.bodies_bytes):
                raise HttpError(503, "too many large requests at once: try again")
            body += part
            # As many chunks as a client likes can be there without a wait.
            await asyncio.sleep(0)
        self._memory.note_whole(self)
        return bytes(body)

    async def _send(self, response: Response, *, without_body: bool) -> None:
        body = response.body
        headers = [("content-type", response.content_type), *response.headers]
        if isinstance(body, bytes):
            headers.append(("content-length", str(len(body))))
        if not self._limits.keeps_open or self._http.their_state is not h11.DONE:
            # In the latter case the rest of the request was not read.
            headers.append(("connection", "close"))
        reason = HTTPStatus(response.status).phrase
        head = h11.Response(status_code=response.status, headers=headers, reason=reason)
        sent = self._http.send(head) or b""
        if isinstance(body, bytes):
            # All in one write: each is a packet of its own.
            sent += b"" if without_body else self._http.send(h11.Data(data=body)) or b""
        elif without_body:
            await cast("Any", body).aclose()
        else:
            self._writer.write(sent)
            sent = b""
            await self._send_pieces(body)
        self._writer.write(sent + (self._http.send(h11.EndOfMessage()) or b""))
        await self._drain()

    async def _send_pieces(self, body: AsyncIterator[bytes]) -> None:
        async with aclosing(cast("Any", body)) as pieces:
            async for piece in pieces:
                if self._reader.at_eof():
                    raise ConnectionResetError("the client has closed")
                if piece:
                    self._writer.write(self._http.send(h11.Data(data=piece)) or b"")
                    await self._drain()

    async def _drain(self) -> None:
        async with asyncio.timeout(self._limits.idle_s):
            await self._writer.drain()
