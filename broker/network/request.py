"""What a handler may know of a request besides its body."""

from __future__ import annotations

from ...protocol.frame import RequestHeader
from .connection import Connection


class RequestContext:
    """The header of one request, and the connection that it arrived on."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id")

    def __init__(self, header: RequestHeader, connection: Connection) -> None:
        self.api_key, self.api_version, self.correlation_id, client_id = header
        self.client_id: str = client_id or ""
        self.connection = connection

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
