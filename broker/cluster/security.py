"""The ACLs, passwords and quotas of a cluster, read from ZooKeeper, and again when a change is announced.

Every broker writes changes itself, as Kafka 3.9's do, and knows its own ones when they return. Others learn of them by
the notifications. A znode that makes no sense ends a start, because an ACL that denies may be in it; later it leaves
what was read before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...zookeeper.operations import SessionExpired, Steps
from ...zookeeper.session import Session
from ..quotas.client_quotas import Change, ClientQuotas
from ..quotas.entities import Entity
from ..security.acls import Acl
from ..security.authorizer import Authorizer
from ..security.sasl.scram import Credential
from ..topics.metadata_journal import Metadata
from ..topics.security_store import PasswordChange, SecurityStore, missing_password
from .security_steps import (
    CONFIGS,
    change_acls,
    change_entity,
    every_entity,
    every_pattern,
    forget_old_notices,
    read_acls,
    read_entities,
    read_notices,
)
from .security_znodes import (
    ACL_CHANGE,
    ACL_CHANGES,
    EXTENDED_ACL_CHANGES,
    Pattern,
    credentials_of,
    decode_acl_change,
    decode_acls,
    encode_credential,
    encode_quotas,
    entity_of_path,
    entity_path,
    pattern_of,
    quotas_of,
)
from .znodes import BadZnode, is_znode_name, sound

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ClusterSecurity(SecurityStore):
    """The store of a broker of a cluster. `read_all` comes before the first request."""

    def __init__(
        self, zookeeper: Session, authorizer: Authorizer | None, client_quotas: ClientQuotas, stranger_secret: bytes
    ) -> None:
        super().__init__(authorizer, client_quotas, {}, {}, {}, stranger_secret)
        self._zookeeper = zookeeper
        self._by_pattern: dict[Pattern, dict[Acl, None]] = {}
        # The last notification that was acted on, by the znode that it is under.
        self._seen = dict.fromkeys((ACL_CHANGES, EXTENDED_ACL_CHANGES) if authorizer is not None else (), "")
        self._turn = asyncio.Lock()

    # -- Changes by this broker

    def check_name(self, name: str) -> None:
        """Raise INVALID_REQUEST where no znode can have the name of a resource."""
        if not is_znode_name(name):
            why = "the ACLs of a cluster are znodes of ZooKeeper, and none can have this name"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)

    async def change_acls(self, added: Iterable[Acl], removed: Iterable[Acl] = ()) -> Mapping[Acl, KafkaError]:
        """Remove ACLs, then add others, resource by resource. Return the errors of those that stay as they were."""
        changes: dict[Pattern, tuple[set[Acl], set[Acl]]] = {}
        for place, acls in enumerate((added, removed)):
            for each in acls:
                changes.setdefault(pattern_of(each), (set(), set()))[place].add(each)
        if not changes:
            return {}
        errors: dict[Acl, KafkaError] = {}
        async with self._turn:
            for pattern, (new, old) in changes.items():
                try:
                    self._take_acls({pattern: await self._run(change_acls(pattern, new, old))})
                except KafkaError as error:
                    errors |= dict.fromkeys(new | old, error)
            with suppress(KafkaError):
                # They are removed with the next change.
                for parent in (ACL_CHANGES, EXTENDED_ACL_CHANGES):
                    await self._run(forget_old_notices(parent))
        return errors

    async def put_passwords(self, changes: Iterable[PasswordChange]) -> Mapping[str, KafkaError]:
        """Set or delete passwords, user by user. Return the errors of users whose passwords stay as they were."""
        by_user: dict[str, list[PasswordChange]] = {}
        for change in changes:
            by_user.setdefault(change[0], []).append(change)
        errors: dict[str, KafkaError] = {}
        async with self._turn:
            for user, wanted in by_user.items():
                try:
                    await self._change(Entity(user=user), partial(_with_passwords, wanted))
                except KafkaError as error:
                    errors[user] = error
        return errors

    async def put_quotas(self, changes: Iterable[Change]) -> Mapping[Entity, KafkaError]:
        """Replace the quotas of entities, one by one. Return the errors of those that stay as they were."""
        errors: dict[Entity, KafkaError] = {}
        async with self._turn:
            for entity, wanted in changes:
                try:
                    await self._change(entity, partial(_with_quotas, dict(self.quotas.get(entity, {})), wanted))
                except KafkaError as error:
                    errors[entity] = error
        return errors

    async def _change(self, entity: Entity, alter: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        place = entity_path(entity)
        self._take_entities({place: await self._run(change_entity(place, alter))})

    async def _run(self, steps: Steps[T]) -> T:
        try:
            return await self._zookeeper.run(steps)
        except SessionExpired:
            why = "the session with ZooKeeper has expired: try again"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why) from None
        except BadZnode as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    async def adopt(self, metadata: Metadata) -> None:
        """Bring what the broker had in its journal while it was alone into the cluster. What the cluster has, wins.

        What is written is removed from the journal, so that a later start brings nothing back that was deleted.
        """
        acls = [each for each in metadata.acls if is_znode_name(each.resource_name)] if self._seen else []
        passwords = [(user, *each) for user, kept in metadata.scram.items() for each in kept.items()]
        quotas = list(metadata.quotas.items())
        errors: list[KafkaError] = []
        errors += (await self.change_acls(acls)).values()
        wanted = [each for each in passwords if self.credential(each[1], each[0]) is None]
        errors += (await self.put_passwords(wanted)).values()
        errors += (await self.put_quotas([each for each in quotas if each[0] not in self.quotas])).values()
        if errors:
            raise errors[0]
        if acls:
            metadata.change_acls((), acls)
        if passwords:
            metadata.put_scram((user, mechanism, None) for user, mechanism, _ in passwords)
        if quotas:
            metadata.put_quotas((entity, {}) for entity, _ in quotas)
        if acls or passwords or quotas:
            _log.info("the ACLs, passwords and quotas of this data directory are now the cluster's")

    # -- Changes by others

    async def read_all(self, *, is_start: bool = True) -> None:
        """Read every ACL, user, client id and address, and watch for changes of ACLs. Raises BadZnode at a start.

        Later the ACLs of a znode that makes no sense stay as they were, and all others are read.
        """
        decode = decode_acls if is_start else _decode_if_sound
        async with self._turn:
            run = self._zookeeper.run
            for parent in self._seen:
                changes = await run(read_notices(f"{parent}/{ACL_CHANGE}", "", decode_acl_change))
                self._seen[parent] = changes[-1][0] if changes else ""
            if self._seen:
                patterns = await run(every_pattern())
                self._take_acls({each: [] for each in self._by_pattern.keys() - patterns})
                self._take_acls(await run(read_acls(patterns, decode)))
            places = await run(every_entity())
            known = {entity_path(each) for each in (*self.quotas, *map(Entity, self.passwords))}
            found = await run(read_entities(places))
            self._take_entities({each: {} for each in known.difference(places)} | found)

    def is_told_by(self, path: str) -> bool:
        """Return whether a change under this path is one of ACLs."""
        return path in self._seen

    async def read_changes(self) -> None:
        """Act on the notifications about ACLs since the last call, and watch for the next."""
        async with self._turn:
            for parent, seen in self._seen.items():
                changes = await self._zookeeper.run(read_notices(f"{parent}/{ACL_CHANGE}", seen, decode_acl_change))
                patterns = dict.fromkeys(pattern for _, pattern in changes)
                self._take_acls(await self._zookeeper.run(read_acls(patterns, _decode_if_sound)))
                if changes:
                    self._seen[parent] = changes[-1][0]

    async def read_entities(self, places: Iterable[str]) -> None:
        """Read users, client ids and addresses again, by their places under `/config`."""
        async with self._turn:
            self._take_entities(await self._zookeeper.run(read_entities(places)))

    # -- What was read

    def _take_acls(self, found: Mapping[Pattern, list[Acl]]) -> None:
        added: list[Acl] = []
        removed: list[Acl] = []
        for pattern, acls in found.items():
            before, present = self._by_pattern.pop(pattern, {}), dict.fromkeys(acls)
            if present:
                self._by_pattern[pattern] = present
            added += (each for each in present if each not in before)
            removed += (each for each in before if each not in present)
        for each in removed:
            self.acls.pop(each, None)
        self.acls.update(dict.fromkeys(added))
        if self._authorizer is not None and (added or removed):
            self._authorizer.change(added, removed)

    def _take_entities(self, found: Mapping[str, Mapping[str, str]]) -> None:
        changes: list[Change] = []
        deleted: set[tuple[str, str]] = set()
        for place, configs in found.items():
            entity, path = entity_of_path(place), f"{CONFIGS}/{place}"
            if entity is None:
                continue
            if entity.user and entity.client_id is None:
                deleted |= self._take_passwords(entity.user, sound(credentials_of, path, configs))
            quotas = sound(quotas_of, path, configs)
            if quotas is not None and quotas != self.quotas.get(entity, {}):
                changes.append((entity, quotas))
        for entity, quotas in changes:
            self.quotas.pop(entity, None)
            if quotas:
                self.quotas[entity] = dict(quotas)
        if changes:
            self._client_quotas.change(changes)
        if deleted:
            self.when_deleted(deleted)

    def _take_passwords(self, user: str, passwords: dict[str, Credential] | None) -> set[tuple[str, str]]:
        """Take the passwords of a user over, and return those that were deleted. None cannot be read: all stay."""
        if passwords is None:
            return set()
        before = self.passwords.pop(user, {})
        if passwords:
            self.passwords[user] = passwords
        return {(user, mechanism) for mechanism in before.keys() - passwords.keys()}


def _with_passwords(changes: list[PasswordChange], present: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of a user after changes of passwords. RESOURCE_NOT_FOUND where one cannot be deleted."""
    configs = dict(present)
    for _, mechanism, credential in changes:
        if credential is not None:
            configs[mechanism] = encode_credential(credential)
        elif configs.pop(mechanism, None) is None:
            raise missing_password()
    return configs


def _with_quotas(before: Mapping[str, float], after: Mapping[str, float], present: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of an entity after a change of its quotas. What another broker has changed meanwhile stays."""
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    kept = {key: value for key, value in present.items() if key not in before or key in after}
    return kept | encode_quotas(changed)


def _decode_if_sound(pattern: Pattern, data: bytes) -> list[Acl] | None:
    """Return the ACLs of a pattern; None, and a line in the log, where they cannot be read."""
    try:
        return decode_acls(pattern, data)
    except BadZnode as error:
        _log.error("the ACLs of %s stay as they were: %s", pattern.name, error)
        return None
