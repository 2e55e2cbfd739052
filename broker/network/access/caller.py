"""The caller: a request whose client an authorizer may deny something. Each denial is a line of the audit log.

The audit log is the logger `odradek.authorizer`: denials at INFO, at most some lines a second of each user
(line_limit.py), and what is allowed at DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....protocol.apis import key_of
from ...security.acls import CLUSTER_NAME, Operation, ResourceType
from ...services import Services
from ..connection import Connection
from ..line_limit import Denials
from ..request import RequestContext

if TYPE_CHECKING:
    from ...security.authorizer import Authorizer, Decision

# A request may name thousands of resources: so many lines of one request say enough.
MAX_LINES = 20
# Names are a client's choice: up to 32 KiB, and any character.
_SHOWN_CHARS = 249

# Takes what is allowed of a request to its handler, and returns the response.
Proceed = Callable[[Any], Any]

_log = logging.getLogger("odradek.authorizer")


class Caller(RequestContext):
    """The context of a request, where there is an authorizer."""

    __slots__ = ("_authorizer", "_denials", "_lines", "_logs_allowed", "services")

    def __init__(
        self,
        authorizer: Authorizer,
        services: Services,
        denials: Denials,
        logs_allowed: bool,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str,
        connection: Connection,
        frame_bytes: int = 0,
    ) -> None:
        # Not by `super`: this is done for each request.
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.frame_bytes = frame_bytes
        self.services = services
        self._authorizer = authorizer
        self._denials = denials
        self._logs_allowed = logs_allowed
        self._lines = 0

    def may(self, operation: Operation, resource_type: ResourceType, name: str, *, audited: bool = True) -> bool:
        who, authorizer = self.connection, self._authorizer
        key = who.principal, who.client_host, operation, resource_type, name
        found = authorizer.decisions.get(key) or authorizer.decide(*key)
        is_allowed = found.is_allowed
        if audited and (not is_allowed or self._logs_allowed):
            self._note(found, operation, resource_type, name)
        return is_allowed

    def may_by_type(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do this to any resource of the type."""
        who = self.connection
        found = self._authorizer.decide_by_type(who.principal, who.client_host, operation, resource_type)
        if not found.is_allowed or self._logs_allowed:
            self._note(found, operation, resource_type, "any")
        return found.is_allowed

    def may_cluster(self, operation: Operation, *, audited: bool = True) -> bool:
        """Return whether the client may do this to the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, audited=audited)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        who = self.connection
        return self._authorizer.operations(who.principal, who.client_host, resource_type, name)

    @property
    def acl_changes(self) -> int:
        return self._authorizer.change_count

    def _note(self, decision: Decision, operation: Operation, resource_type: ResourceType, name: str) -> None:
        self._lines += 1
        if self._lines > MAX_LINES:
            return
        rest = " (and perhaps more of this request, which are not listed)" if self._lines == MAX_LINES else ""
        if not decision.is_allowed:
            now_ms = self.services.clock.monotonic_ms()
            left_out = self._denials.take(self.principal, self.connection.client_host, now_ms)
            if left_out is None:
                return
            rest += f" ({left_out} denials of this user before it are not listed)" if left_out else ""
        _log.log(
            logging.DEBUG if decision.is_allowed else logging.INFO,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:%s for request = %s "
            "based on rule %s%s",
            _shown(str(self.principal)),
            "Allowed" if decision.is_allowed else "Denied",
            operation.name,
            self.connection.client_host,
            resource_type.name,
            _shown(name),
            key_of(self.api_key).name,
            _shown(decision.rule),
            rest,
        )


def logs_allowed() -> bool:
    """Return whether the audit log has what is allowed, too. That is asked at the start, because it costs a percent."""
    return _log.isEnabledFor(logging.DEBUG)


def _shown(text: str) -> str:
    """Return a client's text for the log: no control characters, and not too long."""
    shown = text if text.isprintable() else text.encode("unicode_escape").decode()
    return shown if len(shown) <= _SHOWN_CHARS else shown[:_SHOWN_CHARS] + "..."
