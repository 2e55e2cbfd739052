"""Access: what an API requires, as a value that stands beside its route.

A check gets the caller, the request and the way on, which takes what is allowed of the request to the handler. It
returns the response, with an error for each thing that is denied. The shape of the API says where the things are that
a check asks about, and where their errors go. Where everything is denied the handler has nothing to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar, cast

from ....protocol.apis import key_of, message
from ....protocol.errors import ErrorCode
from ....protocol.primitives import ZERO_UUID
from ....protocol.shapes import answers
from ....protocol.shapes.portions import with_field
from ....protocol.shapes.shape import Items
from ....protocol.shapes.table import lists_in
from ...security.acls import Operation, ResourceType
from ...turns import LargeResponse, fill
from ..large_messages import Handled
from .caller import Caller, Proceed

# The bits of operations that nobody asked for, or of what has an error.
NOT_ASKED = -(2**31)
_CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

Result = Handled | asyncio.Future[Any]
Check = Callable[[Caller, Any, Proceed], Result]
Item = TypeVar("Item")
# Names the resource of an item. None: the handler rejects the item, or everyone may ask for it.
NameOf = Callable[[Caller, Items, Any], str | None]


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


def refuse(caller: Caller, request: Any, code: ErrorCode, text: str | None = None) -> Any:
    """Return the response that denies everything that a request asks for."""
    response = answers.rejection(request, caller.api_version, int(code), text)
    # DescribeLogDirs below version 3 has no place for an error: no directories are told.
    return message(key_of(caller.api_key), "response")() if response is None else response


def refused(caller: Caller, items: Items, denied: list[Any], code: ErrorCode, text: str | None = None) -> list[Any]:
    """Return the results that deny items, or all that is in them."""
    return answers.rejected(caller.api_key, items, denied, caller.api_version, int(code), text)


def cluster(operation: Operation, text: str | None = _CLUSTER_DENIED.text) -> Access:
    """Return the access of an API that needs one operation on the cluster. `text` is the message of a denial."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        return proceed(request) if caller.may_cluster(operation) else refuse(caller, request, _CLUSTER_DENIED, text)

    return Access(f"{operation.name} on the cluster", check)


def split(items: list[Item], is_allowed: Callable[[Item], bool]) -> tuple[list[Item], list[Item]]:
    """Return the items that are allowed, and those that are denied."""
    allowed: list[Item] = []
    denied: list[Item] = []
    for item in items:
        (allowed if is_allowed(item) else denied).append(item)
    return allowed, denied


def answered(caller: Caller, request: Any, items: Items, rest: list[Any], results: list[Any], proceed: Proceed) -> Any:
    """Return what the handler answers for the rest of the items, and the results of those that are denied."""
    if not results:
        return proceed(request)
    if not rest:
        response = message(key_of(caller.api_key), "response")()
        setattr(response, items.results, results)
        return response
    return amended(
        proceed(with_field(request, items.items, rest)),
        lambda response: getattr(response, items.results).extend(results),
    )


def amended(result: Any, amend: Callable[[Any], Iterator[int] | None]) -> Any:
    """Return a response after a change, which is made now, later, or as the last steps of a large one.

    `amend` gets the response. Where it yields, it yields how many values it has looked at.
    """
    if isinstance(result, asyncio.Future):
        return asyncio.ensure_future(_amended_later(cast("asyncio.Future[Any]", result), amend))
    if isinstance(result, LargeResponse):
        large = cast("LargeResponse[Any]", result)
        return LargeResponse(large.response, chain(large.steps, _steps(large.response, amend)))
    return None if result is None else fill(result, _steps(result, amend), 0)


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
    operation: Operation, resource_type: ResourceType, field: str, code: ErrorCode, text: str | None = None
) -> Access:
    """Return the access of an API that needs one operation on the resource that a field of the request names.

    `text` is the message of a denial, where Kafka has one. A request without a name is invalid; its handler says so.
    """

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        name = getattr(request, field)
        if name is None or caller.may(operation, resource_type, name):
            return proceed(request)
        return refuse(caller, request, code, text)

    return Access(f"{operation.name} on the {resource_type.name} of the request", check)


def both(first: Access, second: Access) -> Access:
    """Return an access that needs both, the first before the second."""
    check_first, check_second = first.check, second.check
    assert check_first is not None and check_second is not None

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        return check_first(caller, request, lambda rest: check_second(caller, rest, proceed))

    return Access(f"{first.needs}; {second.needs}", check)


def named(caller: Caller, items: Items, item: Any) -> str | None:
    """Return what an item is called: a topic by its id, too. None for an id that no topic has."""
    name = items.names[0][0]
    if items.kind == "topic" and len(items.names) > 1:
        topic_id: bytes = getattr(item, items.names[1][0])
        if topic_id != ZERO_UUID:
            topic = caller.services.topics.by_id(topic_id)
            return None if topic is None else topic.name
    return getattr(item, name) if name else item


def each(
    operation: Operation,
    resource_type: ResourceType,
    code: ErrorCode,
    name_of: NameOf = named,
    text: str | None = None,
) -> Access:
    """Return the access of an API that needs one operation on each resource of its list.

    `text` is the message of a denial, where Kafka has one.
    """

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        items = lists_in(caller.api_key, caller.api_version)[0]

        def is_allowed(item: Any) -> bool:
            name = name_of(caller, items, item)
            return name is None or caller.may(operation, resource_type, name)

        rest, denied = split(getattr(request, items.items) or [], is_allowed)
        results = refused(caller, items, denied, code, text) if denied else []
        return answered(caller, request, items, rest, results, proceed)

    return Access(f"{operation.name} on each {resource_type.name}", check)
