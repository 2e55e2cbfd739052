"""AddPartitionsToTxn, API key 24: a transaction is about to write to these partitions. Versions 0-5 (4 several
transactions at once, and only to ask).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | asyncio.Future[AddPartitionsToTxnResponse]:
    """The transaction coordinator answers."""
    return services.transactions.add_partitions(context, request)
