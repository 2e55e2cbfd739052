"""EndTxn, API key 26: a transaction is committed or aborted. Versions 0-5 (5 tells the epoch to go on with)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | asyncio.Future[EndTxnResponse]:
    """The transaction coordinator answers, once the decision is committed."""
    return services.transactions.end(context, request)
