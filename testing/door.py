"""The door of a broker in a test: it stands between the connections and the dispatcher, and faults act here.

A fault acts before a request is decoded, after its handler, or before its response is sent, and never inside a
partition: whatever a test does here, the log keeps its promises. A broker without faults and recordings takes the
request on to the dispatcher at once. The kit's own requests pass, too.

Faults are made and ended by the test's thread, and counted by the broker's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

from ..broker.network.connection import CloseConnection, Connection, Dispatch, Pending
from ..broker.network.send_queue import EncodedResponse
from ..broker.threads import in_thread
from ..protocol import frame
from ..protocol.apis import ApiKey, message
from ..protocol.errors import ErrorCode, KafkaError, ProtocolError
from ..protocol.schema import Message
from . import rejections
from .faults import Fault, api_name, places
from .recent import RECENT_REQUESTS, RecentRequest, noted
from .remote import KIT_CLIENT_ID
from .requests import Seen, SeenRequest, decoded_request, decoded_response, encoded_request

# How many different failures of handlers a report shows.
MAX_FAILURES = 50

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Arrived:
    """A request at the door. `data` is the door's own copy of the frame."""

    connection: Connection
    data: memoryview
    header: frame.RequestHeader

    def request(self) -> Message:
        """Return the decoded body."""
        return decoded_request(self.header, self.data)


class Door:
    """The faults and recordings of one broker. `Broker(door=door.between)` puts it in place."""

    def __init__(self, name_of_id: Callable[[bytes], str | None]) -> None:
        """`name_of_id` returns the topic of an id."""
        self._name_of_id = name_of_id
        self._lock = threading.Lock()
        # Replaced as a whole under the lock, and read without it.
        self._faults: tuple[Fault, ...] = ()
        self._recordings: tuple[Seen, ...] = ()
        self._recent: deque[RecentRequest] = deque(maxlen=RECENT_REQUESTS)
        # What went wrong in handlers of the test, and how often, for the report.
        self._failures: Counter[str] = Counter()
        # The client id of each connection, and the broker that it is to.
        self._clients: WeakKeyDictionary[Connection, tuple[str, int | None]] = WeakKeyDictionary()
        # Set while nothing stalls. Made on the broker's loop.
        self._moved: asyncio.Event | None = None

    def between(self, dispatch: Dispatch, *, node: int) -> Dispatch:
        """Return what handles the frames that a broker gets in place of its dispatcher."""
        return partial(self._take, node, dispatch)

    # -- Called by the test's thread

    def add(self, fault: Fault) -> Fault:
        """Put a fault in force."""
        fault.end = self.end
        with self._lock:
            self._faults = (*self._faults, fault)
        return fault

    def end(self, fault: Fault) -> None:
        """Take a fault out of force. Idempotent."""
        with self._lock:
            self._faults = tuple(each for each in self._faults if each is not fault)

    def end_all(self) -> list[Fault]:
        """Take all faults out of force, and return them."""
        with self._lock:
            ended, self._faults = self._faults, ()
        return list(ended)

    def end_stalls(self) -> None:
        """Take the stalls out of force."""
        with self._lock:
            self._faults = tuple(each for each in self._faults if not each.stalls)

    def record(self, seen: Seen) -> None:
        """Note all requests from now on."""
        with self._lock:
            self._recordings = (*self._recordings, seen)

    def stop_recording(self, seen: Seen) -> None:
        """Note no more requests."""
        with self._lock:
            self._recordings = tuple(each for each in self._recordings if each is not seen)

    def forget(self) -> None:
        """Forget what the report of an earlier test would say."""
        self._failures.clear()
        self._recent.clear()

    def recent(self) -> list[str]:
        """Return the last requests, one a line, the newest last."""
        return [each.line(self._name_of_id) for each in list(self._recent)]

    def failures(self) -> list[str]:
        """Return what went wrong in handlers of the test: each failure once."""
        counted = list(self._failures.items())
        return [said if times == 1 else f"{said} ({times} times)" for said, times in counted]

    # -- Called by the broker's loop

    def forget_loop(self) -> None:
        """Be ready for another loop: of a broker that starts again."""
        self._moved = None

    async def wake(self) -> None:
        """Let requests that stall look whether they still have to."""
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set()

    async def cut(self, client_id: str | None, broker: int | None) -> int:
        """Cut the connections of a client, or of all, to a broker, or to all; return how many there were."""
        known = list(self._clients.items())
        cut = [each for each, (client, node) in known if client_id in (None, client) and broker in (None, node)]
        for each in cut:
            each.abort()
        return len(cut)

    def _take(
        self, node: int, dispatch: Dispatch, connection: Connection, data: memoryview
    ) -> EncodedResponse | Pending:
        """Handle a frame."""
        try:
            header, _ = frame.decode_request_header(data)
        except ProtocolError:
            return dispatch(connection, data)
        client_id = header.client_id or ""
        if client_id == KIT_CLIENT_ID:
            return dispatch(connection, data)
        self._clients[connection] = client_id, node
        self._recent.append(recent := noted(header, data))
        met = [each for each in self._faults if each.concerns(header.api_key, client_id, node)]
        if not met and not self._recordings:
            return _looked_at(dispatch(connection, data), partial(_note_answer, [], recent))
        arrived = _Arrived(connection, memoryview(bytearray(data)), header)
        seen = self._note(arrived)
        met = [each for each in met if not each.names_place or self._is_about(each, arrived)]
        # Counted as they arrive: two requests at once are not one. What a test does to them later counts then.
        met = [each for each in met if not each.passes() and (not each.waits or each.fire())]
        if met:
            response = Pending(asyncio.ensure_future(self._handle(dispatch, arrived, met)))
        else:
            response = dispatch(connection, data)
        return _looked_at(response, partial(_note_answer, seen, recent))

    def _note(self, arrived: _Arrived) -> list[SeenRequest]:
        header = arrived.header
        noted = SeenRequest(api_name(header.api_key), header.api_version, header.client_id or "", bytes(arrived.data))
        return [noted for each in self._recordings if each.add(noted)]

    def _is_about(self, fault: Fault, arrived: _Arrived) -> bool:
        """Tell whether a request names the topic and partition of a fault."""
        names = fault.names(self._name_of_id)
        try:
            return any(fault.is_at(*each) for each in places(arrived.request(), arrived.header.api_version, names))
        except (ProtocolError, KeyError):
            return False

    # -- What happens to a request

    async def _handle(self, dispatch: Dispatch, arrived: _Arrived, met: list[Fault]) -> EncodedResponse:
        await self._stall(met)
        await asyncio.sleep(sum(each.delay_s for each in met))
        # Others may have met as many requests as they waited for, or have ended, while this request waited.
        acting = next((each for each in met if not each.waits and each in self._faults and each.fire()), None)
        if acting is None:
            return await _dispatched(dispatch, arrived)
        if acting.handler is not None:
            return await self._answer_by_hand(dispatch, arrived, acting)
        if acting.cuts:
            return await self._cut_request(dispatch, arrived, acting)
        return await self._fail(dispatch, arrived, acting)

    async def _stall(self, met: list[Fault]) -> None:
        while any(each.stalls and each in self._faults for each in met):
            self._moved = self._moved or asyncio.Event()
            await self._moved.wait()

    async def _cut_request(self, dispatch: Dispatch, arrived: _Arrived, fault: Fault) -> EncodedResponse:
        if fault.is_after:
            response = _joined(await _dispatched(dispatch, arrived))
            if response:
                arrived.connection.close_when_answered()
                return [response[: len(response) // 2]]
        raise CloseConnection(f"{fault.what} of the test")

    async def _fail(self, dispatch: Dispatch, arrived: _Arrived, fault: Fault) -> EncodedResponse:
        """Answer with an error, at the places of the fault; the broker carries out the rest."""
        assert fault.error is not None
        header, request = arrived.header, arrived.request()
        version, names = header.api_version, fault.names(self._name_of_id)
        rest: Message | None = request
        if not fault.is_after and not rejections.is_answered_first(header.api_key):
            if _is_incremental(request):
                # The client names its partitions again, and then gets the error for them.
                fault.forget()
                return _encoded(header, _session_lost(request))
            rejected = rejections.rejection(request, version, fault.error, fault, names)
            rest = rejections.rest_of(request, version, fault, names) if fault.names_place else None
            if rest is None:
                _check_is_answered(request, fault)
                return _encoded(header, rejected)
        else:
            rejected = None
        response = await self._respond(dispatch, arrived, rest)
        if response is None:
            raise CloseConnection(f"{fault.what} of the test, to a request without an answer")
        if rejected is None:
            rejections.put_error(response, version, fault.error, fault, names)
        return _encoded(header, response if rejected is None else rejections.join(response, rejected, version))

    async def _respond(self, dispatch: Dispatch, arrived: _Arrived, request: Message | None) -> Message | None:
        """Have the broker carry out a request in place of the one that arrived; return its decoded response."""
        header = arrived.header
        if request is not None:
            arrived = _Arrived(arrived.connection, memoryview(bytearray(encoded_request(header, request))), header)
        response = _joined(await _dispatched(dispatch, arrived))
        return None if response is None else decoded_response(header.api_key, header.api_version, response)

    async def _answer_by_hand(self, dispatch: Dispatch, arrived: _Arrived, fault: Fault) -> EncodedResponse:
        """Let a function of the test answer, in a thread, so that it may wait for whatever it likes."""
        assert fault.handler is not None
        loop, header, request = asyncio.get_running_loop(), arrived.header, arrived.request()
        # What the broker has answered. None for a producer with acks=0.
        answers: list[Message | None] = []

        def proceed() -> Message | None:
            answers.append(asyncio.run_coroutine_threadsafe(self._respond(dispatch, arrived, request), loop).result())
            return answers[-1]

        try:
            answer = await _in_thread(partial(fault.handler, request, proceed))
        except KafkaError as error:
            _check_is_answered(request, fault)
            meant = Fault(fault.what)
            return _encoded(
                header, rejections.rejection(request, header.api_version, error.code, meant, self._name_of_id)
            )
        except Exception as error:
            # A test hears nothing of handlers of earlier ones.
            if fault in self._faults:
                self._note_failure(fault, f"{fault.what}: {type(error).__name__}: {error}")
            raise CloseConnection(f"{fault.what} of the test failed: {error}") from error
        if answer is None and not answers:
            return await _dispatched(dispatch, arrived)
        # A request that was carried out is not carried out again.
        found = answers[-1] if answer is None else cast(Message, answer)
        return None if found is None or _is_unanswered(request) else _encoded(header, found)

    def _note_failure(self, fault: Fault, said: str) -> None:
        """Note a failure of a handler, and log its first one: a client may try again a thousand times."""
        if not fault.has_failed:
            fault.has_failed = True
            _log.exception("%s failed", fault.what)
        if said in self._failures or len(self._failures) < MAX_FAILURES:
            self._failures[said] += 1


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Run a function of the test in a thread that keeps neither the broker nor the process from ending."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception:
            raise
        except BaseException as error:  # such as pytest.fail
            raise AssertionError(f"{type(error).__name__}: {error}") from error

    await in_thread(run, "odradek-test-handler")
    return results[0]


async def _dispatched(dispatch: Dispatch, arrived: _Arrived) -> EncodedResponse:
    """Have the broker carry a request out, and wait for its response."""
    if arrived.connection.is_closing:
        # Its client has gone, perhaps with an earlier test.
        raise CloseConnection("the connection was closed while the request waited")
    response = dispatch(arrived.connection, arrived.data)
    while isinstance(response, Pending):
        try:
            await asyncio.wait([response.future])
        except asyncio.CancelledError:
            # The connection is lost, and with it the wait.
            response.future.cancel()
            raise
        response = response.finish(response.future)
    return response


def _looked_at(
    response: EncodedResponse | Pending, look: Callable[[EncodedResponse], EncodedResponse]
) -> EncodedResponse | Pending:
    """Have a response looked at once it is there. What `look` returns is sent."""
    if not isinstance(response, Pending):
        return look(response)

    def finish(future: asyncio.Future[Any]) -> EncodedResponse | Pending:
        return _looked_at(response.finish(future), look)

    return response._replace(finish=finish)


def _note_answer(seen: list[SeenRequest], recent: RecentRequest, response: EncodedResponse) -> EncodedResponse:
    """Give the requests that were noted their response, and note for the report how this one ends."""
    if seen:
        joined = _joined(response)
        for each in seen:
            each.response = joined
        response = None if joined is None else [joined]
    recent.answer(response)
    return response


def _joined(response: EncodedResponse) -> bytes | None:
    """Return the whole frame of a response; ranges of files are read."""
    if response is None:
        return None
    return b"".join(bytes(each.read() if hasattr(each, "read") else each) for each in cast("list[Any]", response))


def _encoded(header: frame.RequestHeader, response: Message) -> EncodedResponse:
    return cast("EncodedResponse", frame.encode_response(header.correlation_id, response, header.api_version))


def _is_unanswered(request: Message) -> bool:
    """Tell whether a producer expects no response."""
    return request.KEY == ApiKey.PRODUCE and request.acks == 0  # type: ignore[attr-defined]


def _check_is_answered(request: Message, fault: Fault) -> None:
    """Raise CloseConnection for a producer that expects no response, as Kafka closes its connection."""
    if _is_unanswered(request):
        raise CloseConnection(f"{fault.what} of the test, to a producer with acks=0")


def _is_incremental(request: Message) -> bool:
    """Tell whether a Fetch goes on with a session, so that it names only the partitions that have changed."""
    return request.KEY == ApiKey.FETCH and request.session_epoch > 0  # type: ignore[attr-defined]


def _session_lost(request: Message) -> Message:
    response = message(ApiKey.FETCH, "response")()
    response.error_code = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # type: ignore[attr-defined]
    return response
