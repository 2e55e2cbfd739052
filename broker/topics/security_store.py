"""Where ACLs, passwords and quotas are kept: the metadata journal of a broker that is alone, or its cluster's znodes.

Changes are durable when they return, and count for every request that comes to this broker afterwards.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Set
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ..quotas.client_quotas import Change, ClientQuotas
from ..quotas.entities import Entity
from ..security.acls import Acl
from ..turns import keeper
from .metadata_journal import Metadata, new_secret

if TYPE_CHECKING:
    # A broker without an authorizer and passwords needs neither.
    from ..security.authorizer import Authorizer
    from ..security.sasl.scram import Credential

_log = logging.getLogger(__name__)

# User, mechanism, and what is kept of the password; None deletes it.
PasswordChange = tuple[str, str, "Credential | None"]


class SecurityStore(ABC):
    """Both kinds of store. What they keep is here, to be read."""

    def __init__(
        self,
        authorizer: Authorizer | None,
        client_quotas: ClientQuotas,
        acls: dict[Acl, None],
        passwords: dict[str, dict[str, Credential]],
        quotas: dict[Entity, dict[str, float]],
        stranger_secret: bytes,
    ) -> None:
        self._authorizer = authorizer
        self._client_quotas = client_quotas
        self.acls = acls
        # By user and mechanism.
        self.passwords = passwords
        # Of every entity that has one.
        self.quotas = quotas
        # By which users that there are not get salts (security/sasl/scram.py).
        self.stranger_secret = stranger_secret
        # Called with the users and mechanisms of passwords that were deleted.
        self.when_deleted: Callable[[Set[tuple[str, str]]], None] = lambda deleted: None

    def credential(self, mechanism: str, user: str) -> Credential | None:
        """Return what is kept of a user's password."""
        return self.passwords.get(user, {}).get(mechanism)

    def check_name(self, name: str) -> None:  # noqa: B027 - any name will do, unless it has to be a znode's
        """Raise INVALID_REQUEST where no ACL can be kept for a resource of this name."""

    @abstractmethod
    async def change_acls(self, added: Iterable[Acl], removed: Iterable[Acl] = ()) -> Mapping[Acl, KafkaError]:
        """Remove ACLs, then add others. Return the errors of those that stay as they were."""

    @abstractmethod
    async def put_passwords(self, changes: Iterable[PasswordChange]) -> Mapping[str, KafkaError]:
        """Set or delete passwords. Return the errors of users whose passwords stay as they were."""

    @abstractmethod
    async def put_quotas(self, changes: Iterable[Change]) -> Mapping[Entity, KafkaError]:
        """Replace the quotas of entities. Return the errors of those that stay as they were."""


def missing_password() -> KafkaError:
    """Return the error of the deletion of a password that is not there."""
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


class OwnSecurity(SecurityStore):
    """The store of a broker that is alone."""

    def __init__(self, metadata: Metadata, authorizer: Authorizer | None, client_quotas: ClientQuotas) -> None:
        secret = _secret_of(metadata)
        super().__init__(authorizer, client_quotas, metadata.acls, metadata.scram, metadata.quotas, secret)
        self._metadata = metadata

    async def change_acls(self, added: Iterable[Acl], removed: Iterable[Acl] = ()) -> Mapping[Acl, KafkaError]:
        """Remove ACLs, then add others: on disk first, then for every request that comes."""
        added, removed = list(added), list(removed)
        if not added and not removed:
            return {}
        try:
            self._metadata.change_acls(added, removed)
        except KafkaError as error:
            return dict.fromkeys((*added, *removed), error)
        try:
            # Thousands take a turn of the event loop for the disk, and one for the authorizer.
            await keeper().pause()
        finally:
            if self._authorizer is not None:
                # Others may have changed some meanwhile: what is on disk counts.
                there = self.acls
                gone = [acl for acl in removed if acl not in there]
                self._authorizer.change([acl for acl in added if acl in there], gone)
        return {}

    async def put_passwords(self, changes: Iterable[PasswordChange]) -> Mapping[str, KafkaError]:
        """Set or delete passwords, with one write to the disk."""
        changes = list(changes)
        try:
            self._metadata.put_scram(changes)
        except KafkaError as error:
            return {user: error for user, _, _ in changes}
        if deleted := {(user, mechanism) for user, mechanism, credential in changes if credential is None}:
            self.when_deleted(deleted)
        return {}

    async def put_quotas(self, changes: Iterable[Change]) -> Mapping[Entity, KafkaError]:
        """Replace the quotas of entities: on disk first, then for every request that comes."""
        changes = list(changes)
        try:
            self._metadata.put_quotas(changes)
        except KafkaError as error:
            return {entity: error for entity, _ in changes}
        self._client_quotas.change(changes)
        return {}


def _secret_of(metadata: Metadata) -> bytes:
    """Return the secret in the journal; one that an earlier version has written gets one."""
    if not metadata.stranger_secret:
        try:
            metadata.set_stranger_secret(new_secret())
        except KafkaError as error:
            _log.warning("salts of unknown users change with the next start: %s", error.message)
            return new_secret()
    return metadata.stranger_secret
