"""The access guard: asks the authorizer before each request, as the access of its route says."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from ..security.authorizer import Authorizer
from ..services import Services
from .access.caller import Caller, logs_allowed
from .request import RequestContext
from .routes import Handler, Route


class AccessGuard:
    """Asks the authorizer before each request, as the access of its route says."""

    def __init__(self, services: Services, authorizer: Authorizer) -> None:
        # Makes the context of a request.
        self.new_caller = partial(Caller, authorizer, services, logs_allowed())

    def __call__(self, route: Route, handle: Handler) -> Handler:
        """Return what asks before the handler. It takes the callers of `new_caller`."""
        check = route.access.check
        if check is None:
            return handle

        def guarded(context: RequestContext, request: Any) -> Any:
            return check(cast(Caller, context), request, partial(handle, context))

        return guarded
