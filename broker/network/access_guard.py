"""The access guard: asks the authorizer before each request, as the access of its route says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..security.authorizer import Authorizer
from .access.caller import Caller
from .request import RequestContext
from .routes import Handler, Route

if TYPE_CHECKING:
    from ..services import Services


class AccessGuard:
    """Asks the authorizer before each request, as the access of its route says."""

    def __init__(self, services: Services, authorizer: Authorizer) -> None:
        self._services = services
        self._authorizer = authorizer

    def __call__(self, route: Route, handle: Handler) -> Handler:
        check = route.access.check
        if check is None:
            return handle

        def guarded(context: RequestContext, request: Any) -> Any:
            caller = Caller(context, self._authorizer, self._services)
            return check(caller, request, lambda allowed: handle(caller, allowed))

        return guarded
