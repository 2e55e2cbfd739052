"""TxnOffsetCommit, API key 28: writes down how far a group has come, to count once the producer's transaction commits.

Versions 0-5 (2 leader epochs, 3 members and generations, 4 TRANSACTION_ABORTABLE, 5 takes the group into the
transaction).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
    """Let the group coordinator answer, once the group's partition is part of the transaction."""
    verify = services.verification.of_offsets(request, context.api_version)
    return services.groups.commit_in_transaction(context, request, verify)
