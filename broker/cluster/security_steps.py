"""ACLs, passwords and quotas in ZooKeeper, as steps: how they are read, and changed together with a notification.

A change names the version of the znode that it was worked out from. Where another broker, or a tool of Kafka's, was
faster, it is worked out again. Both the change and its notification are written or neither is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...zookeeper.operations import (
    Change,
    Create,
    Delete,
    Failure,
    Put,
    Steps,
    children,
    create,
    portions,
    read,
    read_all,
    write,
    write_all,
)
from ..security.acls import Acl, PatternType
from .security_znodes import (
    CLIENTS,
    IPS,
    KINDS,
    USERS,
    Pattern,
    acl_path,
    decode_acls,
    decode_entity,
    encode_acl_change,
    encode_acls,
    kinds_path,
)
from .znodes import CONFIG_CHANGE_PREFIX, encode_config, encode_config_change, sound

CONFIGS = "/config"
# Znodes that are read in one turn of the event loop: most have a handful of ACLs.
PATTERNS_A_TURN = 500
# How often a change is worked out again because the znode has changed meanwhile. Kafka tries as often.
MAX_TRIES = 10
# The last so many notifications stay, for a broker that was cut off for a moment. Kafka keeps those of 15 minutes.
CHANGES_KEPT = 1000

Configs = dict[str, str]
T = TypeVar("T")


def read_acls(
    patterns: Iterable[Pattern], decode: Callable[[Pattern, bytes], list[Acl] | None] = decode_acls
) -> Steps[dict[Pattern, list[Acl]]]:
    """Return the ACLs of patterns, none for each without a znode. Raises BadZnode.

    `decode` may return None for a znode that makes no sense: its pattern is left out.
    """
    found: dict[Pattern, list[Acl]] = {}
    for some in portions(patterns, PATTERNS_A_TURN):
        znodes = yield from read_all(map(acl_path, some))
        for pattern, znode in zip(some, znodes, strict=True):
            acls = [] if znode is None else decode(pattern, znode.data)
            if acls is not None:
                found[pattern] = acls
    return found


def every_pattern() -> Steps[list[Pattern]]:
    """Return the pattern of every znode of ACLs."""
    found: list[Pattern] = []
    for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
        for kind in KINDS:
            names = yield from children(kinds_path(pattern_type, kind))
            found += (Pattern(int(kind), name, int(pattern_type)) for name in names)
    return found


def read_notices(prefix: str, after: str, decode: Callable[[str, bytes | None], T]) -> Steps[list[tuple[str, T]]]:
    """Return name and content of each notification that comes after `after`, and watch for the next."""
    parent, _, start = prefix.rpartition("/")
    # One of another name, made by hand, would pass for the last one for ever.
    names = [each for each in (yield from children(parent, watch=True)) if each.startswith(start) and each > after]
    paths = [f"{parent}/{each}" for each in names]
    znodes = yield from read_all(paths)
    found: list[tuple[str, T]] = []
    for name, path, znode in zip(names, paths, znodes, strict=True):
        if znode is not None and (content := sound(decode, path, znode.data)) is not None:
            found.append((name, content))
    return found


def forget_old_notices(parent: str) -> Steps[None]:
    """Remove notifications that every broker has seen long ago."""
    old = (yield from children(parent))[:-CHANGES_KEPT]
    yield from write_all((Delete(f"{parent}/{name}"),) for name in old)


def change_acls(pattern: Pattern, added: set[Acl], removed: set[Acl]) -> Steps[list[Acl]]:
    """Take ACLs of a pattern away and add others. Return those that there are then."""
    path = acl_path(pattern)
    notice, told = encode_acl_change(pattern)
    for _ in range(MAX_TRIES):
        znode = yield from read(path)
        present = [] if znode is None else decode_acls(pattern, znode.data)
        wanted = [each for each in present if each not in removed]
        wanted += sorted(added.difference(wanted))
        if wanted == present:
            return present
        version = None if znode is None else znode.version
        change = Delete(path, version or 0) if not wanted else _put(path, encode_acls(wanted), version)
        failure = yield from _write(change, Create(notice, told, is_sequential=True))
        if failure is None:
            return wanted
    raise _too_busy(path)


def read_entities(
    places: Iterable[str], decode: Callable[[str, bytes | None], Configs] = decode_entity
) -> Steps[dict[str, Configs]]:
    """Return the configs of topics, brokers, users and so on by their places under `/config`, {} for each without any.

    One that cannot be read is named in the log, and left out.
    """
    found: dict[str, Configs] = {}
    for some in portions(places, PATTERNS_A_TURN):
        paths = [f"{CONFIGS}/{place}" for place in some]
        znodes = yield from read_all(paths)
        for place, path, znode in zip(some, paths, znodes, strict=True):
            configs = sound(decode, path, znode.data) if znode is not None and znode.data else {}
            if configs is not None:
                found[place] = configs
    return found


def every_entity() -> Steps[list[str]]:
    """Return the places of all users, client ids and addresses under `/config`."""
    found: list[str] = []
    for parent in (USERS, CLIENTS, IPS):
        names = yield from children(f"{CONFIGS}/{parent}")
        found += (f"{parent}/{name}" for name in names)
    for user in [each for each in found if each.startswith(f"{USERS}/")]:
        names = yield from children(f"{CONFIGS}/{user}/{CLIENTS}")
        found += (f"{user}/{CLIENTS}/{name}" for name in names)
    return found


def change_entity(place: str, alter: Callable[[Mapping[str, str]], Configs]) -> Steps[Configs]:
    """Replace the configs at a place by what `alter` makes of them. Return those that there are then."""
    path = f"{CONFIGS}/{place}"
    kind, _, name = place.partition("/")
    notice = Create(CONFIG_CHANGE_PREFIX, encode_config_change(kind, name), is_sequential=True)
    for _ in range(MAX_TRIES):
        znode = yield from read(path)
        present = decode_entity(path, znode.data) if znode is not None and znode.data else {}
        wanted = alter(present)
        if wanted == present:
            return present
        user, clients, _ = place.partition(f"/{CLIENTS}/")
        if znode is None and clients:
            # A user's znode is read as one, also where only its client ids have configs.
            yield from create(Create(f"{CONFIGS}/{user}", encode_config({})))
        change = _put(path, encode_config(wanted), None if znode is None else znode.version)
        if (yield from _write(change, notice)) is None:
            return wanted
    raise _too_busy(path)


def _put(path: str, content: bytes, version: int | None) -> Change:
    return Create(path, content) if version is None else Put(path, content, version)


def _write(change: Change, notice: Create) -> Steps[Failure | None]:
    failure = yield from write(change, notice)
    if failure is not None and failure.missing:
        # Parents that nobody has made yet, or that somebody has removed by hand.
        for path in (change.path, notice.path):
            yield from create(Create(path.rpartition("/")[0]))
        failure = yield from write(change, notice)
    return failure


def _too_busy(path: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the znode {path} is changed by others all the time: try again")
