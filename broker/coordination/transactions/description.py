"""DescribeTransactions and ListTransactions: transactional ids as an administrator sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ....protocol.errors import ErrorCode
from ....protocol.messages import list_transactions
from ....protocol.messages.describe_transactions import TopicData, TransactionState
from ....protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ..large_response import LargeResponse, fill
from . import states
from .id_pattern import MAX_STEPS, VISITS_PER_VALUE, Match
from .records import by_topic
from .transaction import Transaction

# What a character of an id counts for at most.
_WORST_VALUES = 1 + MAX_STEPS // VISITS_PER_VALUE
_BY_NAME = {state.value: state for state in states.TransactionState}


def describe(transactional_id: str, transaction: Transaction | None, error: ErrorCode) -> TransactionState:
    """Return one id of DescribeTransactions: `error` if there is one, not found if `transaction` is None."""
    if error is ErrorCode.NONE and (transaction is None or transaction.state is states.TransactionState.DEAD):
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if error is not ErrorCode.NONE or transaction is None:
        return TransactionState(error_code=error, transactional_id=transactional_id)
    standing = transaction.standing
    # While it ends: the partitions that do not have their marker yet.
    partitions = transaction.unmarked if transaction.state in states.ENDING else standing.partitions
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=standing.timeout_ms,
        transaction_start_time_ms=standing.start_ms,
        producer_id=standing.producer_id,
        producer_epoch=standing.producer_epoch,
        topics=[TopicData(topic, indexes) for topic, indexes in by_topic(partitions).items()],
    )


def list_ids(
    transactions: Sequence[Transaction],
    request: ListTransactionsRequest,
    now_ms: int,
    match: Callable[[str], Match] | None,
) -> ListTransactionsResponse | LargeResponse[ListTransactionsResponse]:
    """Return a ListTransactions response. An unknown state in a filter matches no id; `match` None matches every id."""
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in _BY_NAME]
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    wanted_states, producer_ids = set(request.state_filters), set(request.producer_id_filters)

    def is_wanted(transaction: Transaction) -> bool:
        standing = transaction.standing
        if transaction.state is states.TransactionState.DEAD:
            return False
        if wanted_states and transaction.state.value not in wanted_states:
            return False
        if producer_ids and standing.producer_id not in producer_ids:
            return False
        return request.duration_filter < 0 or now_ms - standing.start_ms > request.duration_filter

    def add(transaction: Transaction) -> Iterator[int]:
        if is_wanted(transaction) and (match is None or (yield from match(transaction.transactional_id))):
            found = transaction.transactional_id, transaction.standing.producer_id, transaction.state.value
            response.transaction_states.append(list_transactions.TransactionState(*found))
        yield 1

    steps = (values for each in transactions for values in add(each))
    return fill(response, steps, _work(transactions, match is not None))


def _work(transactions: Sequence[Transaction], has_pattern: bool) -> int:
    """Return how many values the work of a ListTransactions equals at most."""
    if not has_pattern:
        return len(transactions)
    return sum(1 + len(each.transactional_id) * _WORST_VALUES for each in transactions)
