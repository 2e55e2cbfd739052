"""What a session shows ZooKeeper, and asks of it: TLS, a login by DIGEST-MD5, and the ACLs of the znodes that it makes.

The ACLs are those that Kafka gives: who makes a znode may do everything with it, and everyone may read it, except
where users, configs of brokers or tokens are in it. The znode `/consumers` is open, since any consumer of Kafka 0.8
writes below it.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

_OPEN_PATH = "/consumers"
_SENSITIVE_PATHS = ("/config/users", "/config/brokers", "/delegation_token/tokens", "/cluster/odradek_stranger_secret")


@dataclass(frozen=True)
class ZooKeeperSecurity:
    """How one session is secured."""

    # None: no TLS.
    tls: ssl.SSLContext | None = None
    # Name and password; None: nobody logs in.
    login: tuple[str, str] | None = field(default=None, repr=False)
    # Whether znodes belong to who makes them.
    sets_acl: bool = False

    def acl_of(self, path: str) -> list[ACL]:
        """Return the ACL of a znode that is made at this path, without the chroot."""
        if not self.sets_acl or path == _OPEN_PATH:
            return OPEN_ACL_UNSAFE
        return CREATOR_ALL_ACL if path.startswith(_SENSITIVE_PATHS) else CREATOR_ALL_ACL + READ_ACL_UNSAFE

    @property
    def client_options(self) -> dict[str, Any]:
        """What kazoo's client needs to know of it."""
        options: dict[str, Any] = {"handler": _Handler(self.tls), "use_ssl": self.tls is not None}
        if self.login is not None:
            username, password = self.login
            options["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": username, "password": password}
        return options


OPEN = ZooKeeperSecurity()


class _Handler(SequentialThreadingHandler):
    """kazoo's threads, with connections by a TLS context of ours: kazoo's own trusts the system's authorities, too."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls
        # Why the last connection could not be made; kazoo only logs it.
        self.last_error: OSError | None = None

    def create_connection(self, *_: Any, **given: Any) -> socket.socket:
        """Connect to an address, with TLS where there is a context."""
        try:
            plain = socket.create_connection(given["address"], given["timeout"])
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return plain
            return self._tls.wrap_socket(plain, server_hostname=given["hostname"])
        except OSError as error:
            self.last_error = error
            raise
