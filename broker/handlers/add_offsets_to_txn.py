"""AddOffsetsToTxn, API key 25: a transaction is about to commit offsets of a group. Versions 0-4."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | asyncio.Future[AddOffsetsToTxnResponse]:
    """The transaction coordinator answers."""
    return services.transactions.add_offsets(context, request)
