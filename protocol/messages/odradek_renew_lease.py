"""OdradekRenewLease, API key 30011, ours: keeps leased segments on disk for longer, or gives them back.

RESOURCE_NOT_FOUND: the lease has ended, or the broker has started since. Version 0 is the only one.
"""

from __future__ import annotations

from ..schema import Message, boolean, int16, int32, int64


class OdradekRenewLeaseRequest(Message, key=30011, versions="0", flexible="0+"):
    lease_id: int = int64("0+")
    # The reader is done: the files may go.
    is_end: bool = boolean("0+")


class OdradekRenewLeaseResponse(Message, request=OdradekRenewLeaseRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    # For how long the lease holds from now on.
    lease_ms: int = int64("0+")
