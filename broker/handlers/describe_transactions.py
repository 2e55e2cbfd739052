"""DescribeTransactions, API key 65: how transactional ids stand. Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from ..network.dispatcher import RequestContext
    from ..server import Broker


def handle(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """The transaction coordinator answers."""
    return broker.transactions.describe(context, request)
