"""What a handler may know of a request besides its body."""

from __future__ import annotations

from typing import Any

from ...protocol.apis import key_of
from ..metrics.request_counts import api_name
from ..security.acls import ALL_OPERATIONS, Operation, ResourceType
from ..security.principals import Principal
from .connection import Connection


class RequestContext:
    """The header of one request, and the connection that it arrived on. Without a client id it has an empty one."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id", "frame_bytes")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str,
        connection: Connection,
        frame_bytes: int = 0,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        # The size of the request, until it has been counted against a quota.
        self.frame_bytes = frame_bytes

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of a line in the JSON log that is about this request."""
        return {"connection": self.connection.name, "client_id": self.client_id, "api": api_name(key_of(self.api_key))}

    @property
    def principal(self) -> Principal:
        """Who sends the request: `User:ANONYMOUS` where the client did not authenticate."""
        return self.connection.principal

    @property
    def client(self) -> tuple[str, str]:
        """Whose quotas count: the user and the client id."""
        return self.principal.name, self.client_id

    @property
    def client_host(self) -> str:
        """The client's address as Kafka writes it in a group's description."""
        return "/" + self.connection.client_host

    @property
    def listener_name(self) -> str:
        """The name of the listener that this client has connected to."""
        return self.connection.listener.name

    @property
    def advertised_address(self) -> tuple[str, int]:
        """The host and port that this client is told to connect to."""
        return self.connection.advertised_address

    def may(self, operation: Operation, resource_type: ResourceType, name: str, *, audited: bool = True) -> bool:
        """Return whether the client may do this to a resource. Without an authorizer it may.

        A denial is a line of the audit log, unless what is denied is left out of a response (`audited`).
        """
        return True

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the bits of what the client may do to a resource."""
        return ALL_OPERATIONS[resource_type]

    def throttle(self, response: Any, delay_ms: int) -> None:
        """Let the client wait after this response (None: it gets none), which says so and goes out at once."""
        if delay_ms <= 0:
            return
        if response is not None:
            response.throttle_time_ms = max(response.throttle_time_ms, delay_ms)
        self.connection.mute(delay_ms)

    @property
    def acl_changes(self) -> int:
        """How often the ACLs have changed: what the client was allowed before may be denied after the next change."""
        return 0
