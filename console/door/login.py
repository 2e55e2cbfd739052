"""Who may come in: everybody, one name with a password, or the users of the cluster.

By the users of the cluster, each of them works with a connection of their own, so the cluster's ACLs decide what they
see and change. Bounds: the users that are connected at once; who has not come back for longest goes first.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

from ...client.errors import AuthenticationFailed
from ...web.exchange import HttpError, Request
from ..cluster import Cluster, ClusterOptions

MAX_USERS = 32
_CHALLENGE = (("www-authenticate", 'Basic realm="odradek console", charset="UTF-8"'),)


class Login(Protocol):
    """Lets requests in."""

    @property
    def sees_all(self) -> bool:
        """Whether who is in may see all that the console has sampled."""
        ...

    async def enter(self, request: Request) -> tuple[str, Cluster]:
        """Return the user's name, "" for everybody, and the clients that work for them. Raises HttpError."""
        ...

    async def stop(self) -> None:
        """Close the clients."""
        ...


@dataclass(frozen=True, slots=True)
class OneLogin:
    """Everybody, or all who send one name and password, work with the same clients."""

    cluster: Cluster
    # "name:password", None for everybody.
    wanted: str | None = None

    @property
    def sees_all(self) -> bool:
        return True

    async def enter(self, request: Request) -> tuple[str, Cluster]:
        if self.wanted is None:
            return "", self.cluster
        given = _given(request)
        if not hmac.compare_digest(given.encode(), self.wanted.encode()):
            raise _refused()
        return given.partition(":")[0], self.cluster

    async def stop(self) -> None:
        await self.cluster.stop()


class ClusterLogin:
    """Each user logs in to the cluster by SASL with their name and password."""

    sees_all = False

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        # A hash of name and password -> the clients of the user, the last one that came at the end.
        self._clusters: OrderedDict[bytes, Cluster] = OrderedDict()
        self._opening = asyncio.Lock()

    async def enter(self, request: Request) -> tuple[str, Cluster]:
        given = _given(request)
        name, _, password = given.partition(":")
        key = sha256(given.encode()).digest()
        if key not in self._clusters:
            # One login at a time: who guesses passwords gets no more of them than a broker answers in turn. Who is
            # logged in does not wait for them.
            async with self._opening:
                if key not in self._clusters:
                    await self._open(key, name, password)
        self._clusters.move_to_end(key)
        return name, self._clusters[key]

    async def _open(self, key: bytes, name: str, password: str) -> None:
        own = {"sasl_plain_username": name, "sasl_plain_password": password}
        options = self._options
        cluster = Cluster(
            replace(options, admin={**options.admin, **own}, consumer={**options.consumer, **own},
                    producer={**options.producer, **own})
        )  # fmt: skip
        try:
            await cluster.admin()
        except AuthenticationFailed:
            raise _refused() from None
        except BaseException:
            await cluster.stop()
            raise
        self._clusters[key] = cluster
        if len(self._clusters) > MAX_USERS:
            _, oldest = self._clusters.popitem(last=False)
            await oldest.stop()

    async def stop(self) -> None:
        while self._clusters:
            await self._clusters.popitem()[1].stop()


def _given(request: Request) -> str:
    """Return NAME:PASSWORD of a request. Raises HttpError."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        raise _refused()
    try:
        given = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _refused() from None
    if not given.partition(":")[0]:
        raise _refused()
    return given


def _refused() -> HttpError:
    return HttpError(401, "Log in with a name and a password.", _CHALLENGE)
