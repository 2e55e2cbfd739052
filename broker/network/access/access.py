"""Access: what an API requires, as a value that stands beside its route.

A check gets the caller, the request and the way on, which takes what is allowed of the request to the handler. It
returns the response, with an error for each thing that is denied. The shape of the API says where the things are that
a check asks about, and where their errors go. Where everything is denied the handler has nothing to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, cast

from ....protocol.apis import key_of, message
from ....protocol.errors import ErrorCode
from ....protocol.primitives import ZERO_UUID
from ....protocol.schema import Message
from ....protocol.shapes.answers import Reject, names_items, rejecter, rejection, whole_rejection
from ....protocol.shapes.portions import with_field
from ....protocol.shapes.shape import Items
from ....protocol.shapes.table import lists_in
from ...security.acls import Operation, ResourceType
from ...turns import LargeResponse, fill, keeper
from ..large_messages import Handled
from .caller import Caller, Proceed

# The bits of operations that nobody asked for, or of what has an error.
NOT_ASKED = -(2**31)
# A request of more bytes names some thousands of items.
_LARGE_BYTES = 16 * 1024
# Items that are asked about without a look at the clock.
_ITEMS_AT_ONCE = 20
_CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

Result = Handled | asyncio.Future[Any]
Check = Callable[[Caller, Any, Proceed], Result]
# Returns the result that denies an item of a request; None where it is allowed.
Deny = Callable[[Any], Any]
# Names the resource of an item. None: the handler rejects the item, or everyone may ask for it.
NameOf = Callable[[Caller, Items, Any], str | None]


class Access(NamedTuple):
    """What an API requires of its client."""

    # In words, for the documentation.
    needs: str
    # None: everyone may send such requests.
    check: Check | None
    # The errors of denials, for the documentation. None: what may not be seen is left out.
    denials: tuple[ErrorCode, ...] = ()
    # The operation on the cluster without which everything is denied: nobody else's request is read.
    on_cluster: Operation | None = None


def as_access(needs: str, denials: tuple[ErrorCode, ...] = ()) -> Callable[[Check], Access]:
    """Make a check the access of an API: the name of the function that this decorates is an `Access`."""
    return lambda check: Access(needs, check, denials)


def open_to_all(reason: str) -> Access:
    """Return the access of an API that everyone may use."""
    return Access(f"nothing: {reason}", None)


def list_of(caller: Caller) -> tuple[Items, Reject]:
    """Return the list of a request, and what makes the result of an item that is denied."""
    items = lists_in(caller.api_key, caller.api_version)[0]
    return items, rejecter(caller.api_key, items, caller.api_version)


def refuse(caller: Caller, request: Any, code: ErrorCode, text: str | None = None) -> Any:
    """Return the response that denies everything that a request asks for. One of many items takes turns."""
    key, version = key_of(caller.api_key), caller.api_version
    lists = lists_in(key, version)
    if len(lists) != 1 or lists[0].within or not getattr(request, lists[0].items) or not names_items(key, version):
        response = rejection(request, version, int(code), text)
        # DescribeLogDirs below version 3 has no place for an error: no directories are told.
        return message(key, "response")() if response is None else response
    reject = rejecter(key, lists[0], version)
    response = by_item(caller, request, lists[0], lambda item: reject(item, int(code), text), lambda _: None)
    whole = whole_rejection(key, version, int(code), text)
    response = response if whole is None else amended(response, partial(_tell_whole, whole, lists[0]))
    if isinstance(response, Message) and caller.frame_bytes > _LARGE_BYTES:
        # Encoded in a thread.
        return LargeResponse(response, iter(()))
    return response


def _tell_whole(whole: Any, items: Items, response: Any) -> None:
    """Say the error of a whole request in a response that says it of the items."""
    for field in whole.FIELDS:
        if field.name != items.results:
            setattr(response, field.name, getattr(whole, field.name))


def cluster(operation: Operation, text: str | None = _CLUSTER_DENIED.text) -> Access:
    """Return the access of an API that needs one operation on the cluster. `text` is the message of a denial."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        return proceed(request) if caller.may_cluster(operation) else refuse(caller, request, _CLUSTER_DENIED, text)

    return Access(f"{operation.name} on the cluster", check, (_CLUSTER_DENIED,), operation)


def by_item(
    caller: Caller, request: Any, items: Items, deny: Deny, proceed: Proceed, *, needs_handler: bool = False
) -> Result:
    """Ask about each item of a list, and take those that are allowed on to the handler. Long lists take turns.

    `deny` returns the result that denies an item; None where it is allowed. The handler has nothing to do where all
    are denied, unless it tells more than its items (`needs_handler`).
    """
    all_items: list[Any] = getattr(request, items.items) or []
    rest: list[Any] = []
    results: list[Any] = []
    if len(all_items) <= _ITEMS_AT_ONCE:
        # Without a generator and a clock, which would cost a small request two percent.
        for item in all_items:
            result = deny(item)
            if result is None:
                rest.append(item)
            else:
                results.append(result)
        return answered(caller, request, items, rest, results, proceed, needs_handler)
    steps = _ask(all_items, deny, rest, results)
    return after(steps, partial(answered, caller, request, items, rest, results, proceed, needs_handler))


def for_all(
    caller: Caller,
    operation: Operation,
    resource_type: ResourceType,
    names: Iterable[str],
    proceed: Callable[[], Result],
    refuse: Callable[[], Result],
) -> Result:
    """Go on where the client may do this to all that is named. Long lists take turns."""
    denied: list[str] = []

    def ask() -> Iterator[None]:
        for name in names:
            if not caller.may(operation, resource_type, name):
                denied.append(name)
                return
            yield

    return after(ask(), lambda: refuse() if denied else proceed())


def after(steps: Iterator[None], answer: Callable[[], Any]) -> Any:
    """Return the answer that can be given after all steps, now or in a later turn."""
    return asyncio.ensure_future(_answered_later(steps, answer)) if keeper().take_now(steps) else answer()


def _ask(all_items: list[Any], deny: Deny, rest: list[Any], results: list[Any]) -> Iterator[None]:
    for item in all_items:
        result = deny(item)
        if result is None:
            rest.append(item)
        else:
            results.append(result)
        yield


async def _answered_later(steps: Iterator[None], answer: Callable[[], Any]) -> Any:
    await keeper().finish(steps)
    response = answer()
    return await cast("asyncio.Future[Any]", response) if isinstance(response, asyncio.Future) else response


def answered(
    caller: Caller,
    request: Any,
    items: Items,
    rest: list[Any],
    results: list[Any],
    proceed: Proceed,
    needs_handler: bool = False,
) -> Any:
    """Return what the handler answers for the rest of the items, with the results of those that are denied."""
    if not results:
        return proceed(request)
    if not rest and not needs_handler:
        response = message(caller.api_key, "response")()
        setattr(response, items.results, results)
        return response
    response = proceed(with_field(request, items.items, rest))
    return amended(response, lambda whole: getattr(whole, items.results).extend(results))


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

    return Access(access.needs + also, check, access.denials)


def only_seen(items: str, name: str, resource_type: ResourceType, what: str) -> Access:
    """Return the access of a list, in which a client sees what it may describe: the elements have names."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        def may_see(item: Any) -> bool:
            return sees(caller, resource_type, getattr(item, name))

        return amended(proceed(request), lambda response: keep_allowed(getattr(response, items), may_see))

    return Access(f"nothing: only {what} are listed", check)


def sees(caller: Caller, resource_type: ResourceType, name: str) -> bool:
    """Return whether a client may describe a resource, which is left out of the response if not."""
    return caller.may(Operation.DESCRIBE, resource_type, name, audited=False)


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

    return Access(f"{operation.name} on the {resource_type.name} of the request", check, (code,))


def both(first: Access, second: Access) -> Access:
    """Return an access that needs both, the first before the second."""
    check_first, check_second = first.check, second.check
    assert check_first is not None and check_second is not None

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        return check_first(caller, request, lambda rest: check_second(caller, rest, proceed))

    return Access(f"{first.needs}; {second.needs}", check, (*first.denials, *second.denials))


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
        items, reject = list_of(caller)

        def deny(item: Any) -> Any:
            name = name_of(caller, items, item)
            is_allowed = name is None or caller.may(operation, resource_type, name)
            return None if is_allowed else reject(item, int(code), text)

        return by_item(caller, request, items, deny, proceed)

    return Access(f"{operation.name} on each {resource_type.name}", check, (code,))
