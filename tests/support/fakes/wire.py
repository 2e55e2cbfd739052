"""A scripted broker: it speaks the protocol, responds with message values, and fails where a test tells it to.

    async with FakeCluster({"t": 2}) as cluster:
        cluster.on(ApiKey.PRODUCE, drop, refuse_produce(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        async with Producer(cluster.address) as producer: ...

Each API has a default answer (`fake_cluster.py`, `fake_group.py`). `on` puts steps in front of it, and each request
uses up one. A step gets the request and the default answer. It returns a response, or a behaviour of the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from odradek.protocol import codec, frame
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.tests.support.documents.apis import DECLARED

# Kafka's socket.request.max.bytes: a broker hangs up at more, such as at the beginning of TLS.
MAX_REQUEST_BYTES = 104_857_600


@dataclass
class Call:
    """One request to one node. Calling its default answer also carries the request out."""

    node: FakeBroker
    key: ApiKey
    version: int
    request: Any
    default: Callable[[], Awaitable[Any]]
    # The connection that it came on.
    peer: object = None


class HangUp:
    """Close the connection instead of answering."""


class Silence:
    """Answer nothing, and keep the connection."""


@dataclass
class Bytes:
    """Write these bytes as they are."""

    data: bytes


@dataclass
class Pieces:
    """Answer a few bytes at a time."""

    response: Any
    size: int


Step = Callable[[Call], Awaitable[Any]]


async def drop(call: Call) -> Any:
    """Hang up before doing anything."""
    return HangUp()


async def do_and_drop(call: Call) -> Any:
    """Carry the request out, and hang up without an answer."""
    await call.default()
    return HangUp()


async def keep_silent(call: Call) -> Any:
    """Do nothing and answer nothing."""
    return Silence()


async def do_it(call: Call) -> Any:
    """Give the default answer."""
    return await call.default()


def answer(response: Any) -> Step:
    """Return a step that gives this response to any request."""

    async def step(call: Call) -> Any:
        return response

    return step


def in_pieces(size: int) -> Step:
    """Return a step that gives the default answer in pieces of so many bytes."""

    async def step(call: Call) -> Any:
        return Pieces(await call.default(), size)

    return step


@dataclass
class FakeBroker:
    """One node: a server, and the requests that it was sent."""

    node_id: int
    cluster: Wire
    port: int = 0
    server: asyncio.Server | None = None
    calls: list[Call] = field(default_factory=list)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.cluster.tls)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection, as a crash would."""
        if self.server is not None:
            self.server.close()
            for writer in list(self.writers):
                writer.transport.abort()
            self.server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.cluster.tasks.add(task)
        self.writers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                if size > MAX_REQUEST_BYTES:
                    return
                if not await self._one(await reader.readexactly(size), writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # the client went away, or the test is over
        except Exception as error:
            self.cluster.problems.append(f"a step or an answer failed: {error!r}")
            raise
        finally:
            self.writers.discard(writer)
            self.cluster.tasks.discard(task)
            writer.transport.abort()

    async def _one(self, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Return whether the connection stays open."""
        header, at = frame.decode_request_header(body)
        key, version, correlation_id = ApiKey(header.api_key), header.api_version, header.correlation_id
        if key is ApiKey.API_VERSIONS and not self.cluster.speaks(key, version):
            rejection = self.cluster.versions_answer()
            rejection.error_code = ErrorCode.UNSUPPORTED_VERSION
            writer.writelines(frame.encode_response(correlation_id, rejection, 0))
            return True
        if not self.cluster.speaks(key, version):
            self.cluster.problems.append(f"{key.name} {version} is not offered")
            return False
        request = codec.decode(message(key, "request"), version, body, at)

        async def default() -> Any:
            return await self.cluster.defaults[key](call)

        call = Call(self, key, version, request, default, writer)
        self.calls.append(call)
        if self.cluster.refuses(call):
            return False
        steps = self.cluster.steps[key]
        result = await (steps.popleft()(call) if steps else default())
        return await _reply(writer, correlation_id, version, result)


async def _reply(writer: asyncio.StreamWriter, correlation_id: int, version: int, result: Any) -> bool:
    if isinstance(result, HangUp):
        return False
    if isinstance(result, Bytes):
        writer.write(result.data)
    elif isinstance(result, Pieces):
        data = b"".join(bytes(piece) for piece in frame.encode_response(correlation_id, result.response, version))
        for start in range(0, len(data), result.size):
            writer.write(data[start : start + result.size])
            await writer.drain()
            await asyncio.sleep(0)
    elif result is not None and not isinstance(result, Silence):
        writer.write(b"".join(bytes(piece) for piece in frame.encode_response(correlation_id, result, version)))
    return True


@lru_cache
def _spans(versions: tuple[tuple[ApiKey, tuple[int, int]], ...]) -> list[ApiVersion]:
    return [ApiVersion(key, *span) for key, span in sorted(versions)]


class Wire:
    """The nodes of a fake cluster, their script and the requests to them. `FakeCluster` gives the default answers."""

    def __init__(self, nodes: int) -> None:
        self.nodes = {number: FakeBroker(number, self) for number in range(1, nodes + 1)}
        self.steps: dict[ApiKey, deque[Step]] = defaultdict(deque)
        declared = {key: message(key, "request").VERSIONS for key in DECLARED}
        self.versions = {key: (versions[0], versions[-1]) for key, versions in declared.items()}
        # InitProducerId 6 is not stable in any Kafka yet.
        self.versions[ApiKey.INIT_PRODUCER_ID] = (0, 5)
        self.defaults: dict[ApiKey, Step] = {ApiKey.API_VERSIONS: self._api_versions}
        self.tasks: set[asyncio.Task[None]] = set()
        self.problems: list[str] = []
        # For a cluster that speaks TLS, and whether it hangs up at a request.
        self.tls: ssl.SSLContext | None = None
        self.refuses: Callable[[Call], bool] = lambda call: False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.nodes[1].port}"

    def on(self, key: ApiKey, *steps: Step) -> None:
        """Let the next requests of this API, to any node, take these steps before the default answer."""
        self.steps[key].extend(steps)

    def calls(self, key: ApiKey) -> list[Call]:
        """Return the requests of this API, node by node."""
        return [call for node in self.nodes.values() for call in node.calls if call.key is key]

    def speaks(self, key: ApiKey, version: int) -> bool:
        low, high = self.versions.get(key, (0, -1))
        return low <= version <= high and version in message(key, "request").VERSIONS

    def versions_answer(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(api_keys=list(_spans(tuple(self.versions.items()))))

    async def _api_versions(self, call: Call) -> Any:
        return self.versions_answer()

    async def __aenter__(self) -> Any:
        for node in self.nodes.values():
            await node.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes.values():
            await node.stop()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert self.problems == []
