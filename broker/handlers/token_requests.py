"""What the requests about delegation tokens share: nobody gets one, as in a Kafka without a key to sign them.

Which of the two errors a client gets depends on who it is: only one that has proved its name may ask.
"""

from __future__ import annotations

from typing import Final

from ...protocol.errors import ErrorCode
from ..configs.endpoint import SecurityProtocol
from ..network.request import RequestContext
from ..security.principals import ANONYMOUS

# The times in an answer that refuses the request itself, and in one that says that there are no tokens.
NOT_ALLOWED_MS: Final = -1
DISABLED_MS: Final = 0


def rejection(context: RequestContext) -> tuple[ErrorCode, int]:
    """Return the error, and what stands for the times in its response."""
    is_unknown = context.security_protocol is SecurityProtocol.SSL and context.principal == ANONYMOUS
    if is_unknown or context.security_protocol is SecurityProtocol.PLAINTEXT:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NOT_ALLOWED_MS
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, DISABLED_MS
