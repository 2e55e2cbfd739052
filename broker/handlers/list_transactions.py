"""ListTransactions, API key 66: the transactional ids of this coordinator. Versions 0-2 (1 by how long they have run,
2 by a pattern).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(services: Services, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """The transaction coordinator answers."""
    return services.transactions.list(context, request)
