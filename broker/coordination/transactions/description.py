"""DescribeTransactions and ListTransactions: transactional ids as an administrator sees them.

Patterns that filter ids (KIP-1152) are in the language of RE2, which matches in time in proportion to text times
program, whatever the pattern. With Python's `re` one pattern could stop the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages import list_transactions
from ....protocol.messages.describe_transactions import TopicData, TransactionState
from ....protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ...turns import LargeResponse, fill
from ..expressions import BadExpression, compiled
from . import states
from .records import by_topic
from .transaction import Transaction

# In characters. What remains of it is bounded by the program.
MAX_PATTERN = 250
# In RE2's instructions: an id of 32 KiB is matched in 25 ms at most.
MAX_PROGRAM = 400


def read_pattern(text: str) -> Any:
    """Return the compiled pattern. Raises BadExpression, also for one that takes too long."""
    if len(text) > MAX_PATTERN:
        raise BadExpression(f"a pattern of {len(text)} characters, more than {MAX_PATTERN}")
    try:
        program = compiled(text)
    except BadExpression as error:
        raise BadExpression(f"{text!r}: {error}") from None
    if program.programsize > MAX_PROGRAM:
        raise BadExpression(f"{text!r}: {program.programsize} instructions, more than {MAX_PROGRAM}")
    return program


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
    transactions: Sequence[Transaction], request: ListTransactionsRequest, now_ms: int, pattern: Any | None
) -> ListTransactionsResponse | LargeResponse[ListTransactionsResponse]:
    """Return a ListTransactions response. An unknown state matches no id; `pattern` None matches every id."""
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

    def add(transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        if is_wanted(transaction) and (pattern is None or pattern.fullmatch(transactional_id)):
            found = transactional_id, transaction.standing.producer_id, transaction.state.value
            response.transaction_states.append(list_transactions.TransactionState(*found))

    return fill(response, map(add, transactions), len(transactions))
