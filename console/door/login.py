"""Who may come in: everybody, one name with a password, or the users of the cluster.

By the users of the cluster, each of them works with a connection of their own, so the cluster's ACLs decide what they
see and change. Their passwords are checked again every `CHECK_S`, because a session of Kafka goes on after its password
was changed. Bounds: the users that are connected at once; who has not come back for longest goes first.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256

from ...client.errors import AuthenticationFailed, KafkaError
from ...web.exchange import HttpError, Request
from ...web.guesses import Guesses, login_in
from ..cluster import Cluster, ClusterOptions

MAX_USERS = 32
# Logins of users at a time: each is a connection, and waits for the broker's delay where it is wrong.
AT_ONCE = 8
CHECK_S = 5.0

_log = logging.getLogger(__name__)
_CHALLENGE = (("www-authenticate", 'Basic realm="odradek console", charset="UTF-8"'),)


@dataclass(frozen=True, slots=True)
class OneLogin:
    """Everybody, or all who send one name and password, work with the same clients."""

    cluster: Cluster
    # "name:password", None for everybody.
    wanted: str | None = None
    guesses: Guesses = field(default_factory=Guesses)

    @property
    def sees_all(self) -> bool:
        """Whether who is in may see all that the console has sampled."""
        return True

    async def enter(self, request: Request) -> tuple[str, Cluster]:
        """Return the user's name, "" for everybody, and the clients that work for them. Raises HttpError."""
        if self.wanted is None:
            return "", self.cluster
        given = _given(request)
        if not hmac.compare_digest(given.encode(), self.wanted.encode()):
            await self.guesses.refuse(request, given.partition(":")[0])
            raise refused()
        return given.partition(":")[0], self.cluster

    async def forget(self, request: Request) -> bool:
        """Forget a user whom the cluster lets in no more. Return whether there was one: otherwise it is the console."""
        return False

    async def stop(self) -> None:
        await self.cluster.stop()


class _Attempts:
    """The logins under way: a few. Addresses take turns, and of one address who came last goes first.

    So a right password waits neither behind the guesses of other addresses, nor behind earlier ones of its own.
    """

    def __init__(self) -> None:
        self._free = AT_ONCE
        # Bounded by the console's connections; in the order of the turns.
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def one(self, address: str) -> AsyncGenerator[None]:
        """Wait for a turn, and have it within."""
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(address, []).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._next()
                raise
        try:
            yield
        finally:
            self._next()

    def _next(self) -> None:
        while self._waiting:
            address = next(iter(self._waiting))
            turns = self._waiting.pop(address)
            turn = turns.pop()
            if turns:
                self._waiting[address] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


@dataclass(slots=True)
class _User:
    """Somebody who has logged in."""

    cluster: Cluster
    # When the cluster was last asked about the password.
    checked_s: float
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)


class ClusterLogin:
    """Each user logs in to the cluster by SASL with their name and password."""

    sees_all = False

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        # A hash of name and password -> the clients of the user, the last one that came at the end.
        self._users: OrderedDict[bytes, _User] = OrderedDict()
        self._attempts = _Attempts()
        self._guesses = Guesses()

    async def enter(self, request: Request) -> tuple[str, Cluster]:
        given = _given(request)
        name, _, password = given.partition(":")
        key = _key(given)
        try:
            user = self._users.get(key)
            if user is None:
                user = await self._open(key, request.address, name, password)
            else:
                await self._check(key, user, name, password)
        except AuthenticationFailed:
            await self._guesses.refuse(request, name)
            raise refused() from None
        if key in self._users:
            self._users.move_to_end(key)
        return name, user.cluster

    async def _open(self, key: bytes, address: str, name: str, password: str) -> _User:
        # Who is logged in does not wait for those who log in.
        async with self._attempts.one(address):
            if (known := self._users.get(key)) is not None:
                return known
            cluster = await self._logged_in(name, password)
        if (known := self._users.get(key)) is not None:
            # Another request of this user has logged in meanwhile.
            await cluster.stop()
            return known
        user = self._users[key] = _User(cluster, _now_s())
        if len(self._users) > MAX_USERS:
            _, oldest = self._users.popitem(last=False)
            await oldest.cluster.stop()
        return user

    async def _check(self, key: bytes, user: _User, name: str, password: str) -> None:
        """Log in once more where that was long ago. Raises AuthenticationFailed."""
        async with user.checking:
            if _now_s() - user.checked_s < CHECK_S:
                return
            try:
                cluster = await self._logged_in(name, password)
            except AuthenticationFailed:
                await self._drop(key)
                raise
            except KafkaError as error:
                # No broker says anything: the page tells that.
                # The next check comes in its time: otherwise each request would wait for the brokers, one by one.
                _log.debug("the password of %r is not checked: %s", name, error.message)
                user.checked_s = _now_s()
                return
            user.checked_s = _now_s()
            await cluster.stop()

    async def _logged_in(self, name: str, password: str) -> Cluster:
        """Return clients of a user, one of which has logged in. Raises AuthenticationFailed."""
        own = {"sasl_plain_username": name, "sasl_plain_password": password}
        options = self._options
        cluster = Cluster(
            replace(options, admin={**options.admin, **own}, consumer={**options.consumer, **own},
                    producer={**options.producer, **own})
        )  # fmt: skip
        try:
            await cluster.admin()
        except BaseException:
            await cluster.stop()
            raise
        return cluster

    async def forget(self, request: Request) -> bool:
        return await self._drop(_key(_given(request)))

    async def _drop(self, key: bytes) -> bool:
        user = self._users.pop(key, None)
        if user is not None:
            await user.cluster.stop()
        return user is not None

    async def stop(self) -> None:
        while self._users:
            await self._users.popitem()[1].cluster.stop()


# Lets requests in.
Login = OneLogin | ClusterLogin


def _key(given: str) -> bytes:
    return sha256(given.encode()).digest()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _given(request: Request) -> str:
    """Return NAME:PASSWORD of a request. Raises HttpError."""
    given = login_in(request)
    if not given.partition(":")[0]:
        raise refused()
    return given


def refused() -> HttpError:
    """Return the error that has a browser ask for a name and a password."""
    return HttpError(401, "Log in with a name and a password.", _CHALLENGE)
