"""Access: what an API requires, as a value that stands beside its route.

A check gets the caller, the request and the way on, which takes what is allowed of the request to the handler. It
returns the response, with an error for each thing that is denied. A check that leaves the question to the handler
passes everything on: the handler asks its context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar, cast

from ....protocol.apis import key_of, message
from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.schema import Message, Struct
from ...security.acls import Operation, ResourceType
from ...turns import LargeResponse
from ..large_messages import Handled, Portions
from .caller import Caller, Proceed

# The bits of operations that nobody asked for, or of what has an error.
NOT_ASKED = -(2**31)

Result = Handled | asyncio.Future[Any]
Check = Callable[[Caller, Any, Proceed], Result]
Changed = TypeVar("Changed", bound=Struct)
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Access:
    """What an API requires of its client."""

    # In words, for the documentation.
    needs: str
    # None: everyone may send such requests.
    check: Check | None


def open_to_all(reason: str) -> Access:
    """Return the access of an API that everyone may use."""
    return Access(f"nothing: {reason}", None)


def by_handler(needs: str) -> Access:
    """Return the access of an API whose handler asks its context."""
    return Access(needs, lambda caller, request, proceed: proceed(request))


def _reject(caller: Caller, request: Any) -> Any:
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def cluster(operation: Operation, deny: Callable[[Caller, Any], Any] = _reject) -> Access:
    """Return the access of an API that needs one operation on the cluster.

    `deny` returns the response that is a denial, or raises its error.
    """

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        return proceed(request) if caller.may_cluster(operation) else deny(caller, request)

    return Access(f"{operation.name} on the cluster", check)


def with_field(struct: Changed, name: str, value: Any) -> Changed:
    """Return a copy of a request with one field replaced."""
    changed = copy(struct)
    setattr(changed, name, value)
    return changed


def split(items: list[Item], is_allowed: Callable[[Item], bool]) -> tuple[list[Item], list[Item]]:
    """Return the items that are allowed, and those that are denied."""
    allowed: list[Item] = []
    refused: list[Item] = []
    for item in items:
        (allowed if is_allowed(item) else refused).append(item)
    return allowed, refused


def denied(caller: Caller, portions: Portions, items: list[Any], code: ErrorCode, message_text: str = "") -> list[Any]:
    """Return results of the caller's API that say `code` for each of the items and all that is in them."""
    return _denied(message(key_of(caller.api_key), "response"), portions, items, code, message_text)


def all_denied(caller: Caller, request: Message, portions: Portions, code: ErrorCode, text: str = "") -> Any:
    """Return the response that says `code` for everything that a request names."""
    response = message(key_of(caller.api_key), "response")()
    setattr(response, portions.results, denied(caller, portions, getattr(request, portions.items) or [], code, text))
    return response


def _denied(owner: type[Struct], portions: Portions, items: list[Any], code: ErrorCode, text: str) -> list[Any]:
    made = next(field for field in owner.FIELDS if field.name == portions.results).struct()
    results: list[Any] = []
    for item in items:
        result = made()
        _name_as(result, item)
        if portions.inner is None:
            error = next((field.name for field in made.FIELDS if field.name.endswith("error_code")), None)
            if error is not None:
                setattr(result, error, int(code))
            if hasattr(result, "error_message"):
                setattr(result, "error_message", text or None)  # noqa: B010 - a struct whose class has the field
        else:
            inner = _denied(made, portions.inner, getattr(item, portions.inner.items) or [], code, text)
            setattr(result, portions.inner.results, inner)
        results.append(result)
    return results


# Fields that name what a result is about.
_IDENTITIES = frozenset(
    "name topic topic_id topic_name group_id index partition partition_index producer_id".split()  # noqa: SIM905
) | frozenset({"resource_type", "resource_name"})
# Offsets that a denied partition does not have.
_UNKNOWN_OFFSETS = frozenset({"base_offset", "committed_offset", "low_watermark"})


def _name_as(result: Struct, item: Any) -> None:
    """Let a result name what a request's item names."""
    names = [field.name for field in result.FIELDS]
    for name in _UNKNOWN_OFFSETS.intersection(names):
        setattr(result, name, -1)
    if not isinstance(item, Struct):
        first = next(name for name in names if "error" not in name)
        setattr(result, first, item)
        return
    for field in item.FIELDS:
        if field.name in _IDENTITIES and field.name in names:
            setattr(result, field.name, getattr(item, field.name))


def amended(result: Any, amend: Callable[[Any], Iterator[int] | None]) -> Any:
    """Return a response after a change, which is made now, later, or as the last steps of a large one.

    `amend` gets the response. Where it yields, it yields how many values it has looked at.
    """
    if isinstance(result, asyncio.Future):
        return asyncio.ensure_future(_amended_later(cast("asyncio.Future[Any]", result), amend))
    if isinstance(result, LargeResponse):
        large = cast("LargeResponse[Any]", result)
        return LargeResponse(large.response, chain(large.steps, _steps(large.response, amend)))
    if result is not None:
        for _ in _steps(result, amend):
            pass
    return result


async def _amended_later(result: asyncio.Future[Any], amend: Callable[[Any], Iterator[int] | None]) -> Any:
    return amended(await result, amend)


def _steps(response: Any, amend: Callable[[Any], Iterator[int] | None]) -> Iterator[int]:
    # A generator, so that `amend` begins when the response is whole.
    yield from amend(response) or ()


def amending(access: Access, amend: Callable[[Caller, Any, Any], Iterator[int] | None], also: str = "") -> Access:
    """Return an access after which `amend` changes the response, given the caller and the request. `also` says why."""
    check_before = access.check
    assert check_before is not None

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        return amended(check_before(caller, request, proceed), lambda response: amend(caller, request, response))

    return Access(access.needs + also, check)


def only_seen(items: str, name: str, resource_type: ResourceType, what: str) -> Access:
    """Return the access of a list, in which a client sees what it may describe: the elements have names."""

    def amend(caller: Caller, request: Any, response: Any) -> Iterator[int]:
        def may_see(item: Any) -> bool:
            return caller.may(Operation.DESCRIBE, resource_type, getattr(item, name), audited=False)

        return keep_allowed(getattr(response, items), may_see)

    return amending(by_handler(f"nothing: only {what} are listed"), amend)


def keep_allowed(items: list[Any], may: Callable[[Any], bool]) -> Iterator[int]:
    """Leave out of a list what the client may not see; yield 1 for each item that was looked at."""
    kept: list[Any] = []
    for item in items:
        if may(item):
            kept.append(item)
        yield 1
    items[:] = kept


def whole(
    operation: Operation, resource_type: ResourceType, field: str, code: ErrorCode, portions: Portions | None = None
) -> Access:
    """Return the access of an API that needs one operation on the resource that a field of the request names.

    A denial is an error of the response; with `portions` one of everything that the request names.
    """

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        if caller.may(operation, resource_type, getattr(request, field)):
            return proceed(request)
        if portions is None:
            raise KafkaError(code)
        return all_denied(caller, request, portions, code)

    return Access(f"{operation.name} on the {resource_type.name} of the request", check)


def both(first: Access, second: Access) -> Access:
    """Return an access that needs both, the first before the second."""
    check_first, check_second = first.check, second.check
    assert check_first is not None and check_second is not None

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        return check_first(caller, request, lambda rest: check_second(caller, rest, proceed))

    return Access(f"{first.needs}; {second.needs}", check)


def each(
    portions: Portions,
    operation: Operation,
    resource_type: ResourceType,
    code: ErrorCode,
    name_of: Callable[[Caller, Any], str | None],
    text: str = "",
) -> Access:
    """Return the access of an API that needs one operation on each resource of a list.

    `name_of` names the resource of an item. None: the handler rejects the item, or everyone may ask for it.
    `text` is the message of a denial, where Kafka has one.
    """

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        def is_allowed(item: Any) -> bool:
            name = name_of(caller, item)
            return name is None or caller.may(operation, resource_type, name)

        rest, refused = split(getattr(request, portions.items) or [], is_allowed)
        if not refused:
            return proceed(request)
        results = denied(caller, portions, refused, code, text)
        return amended(
            proceed(with_field(request, portions.items, rest)),
            lambda response: getattr(response, portions.results).extend(results),
        )

    return Access(f"{operation.name} on each {resource_type.name}", check)
