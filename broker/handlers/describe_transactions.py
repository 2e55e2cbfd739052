"""DescribeTransactions, API key 65: how transactional ids stand. Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """The transaction coordinator answers."""
    return services.transactions.describe(context, request)
