"""Where ACLs and passwords are kept: the metadata journal of a broker that is alone, or the znodes of its cluster.

Changes are durable when they return, and count for every request that comes to this broker afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ...protocol.errors import ErrorCode, KafkaError
from .acls import Acl
from .sasl.scram import Credential

# User, mechanism, and what is kept of the password; None deletes it.
PasswordChange = tuple[str, str, Credential | None]


class SecurityStore(Protocol):
    """Both kinds of store."""

    @property
    def acls(self) -> Mapping[Acl, None]:
        """Every ACL."""
        ...

    @property
    def passwords(self) -> Mapping[str, Mapping[str, Credential]]:
        """What is kept of passwords, by user and mechanism."""
        ...

    def credential(self, mechanism: str, user: str) -> Credential | None:
        """Return what is kept of a user's password."""
        ...

    def check_name(self, name: str) -> None:
        """Raise INVALID_REQUEST where no ACL can be kept for a resource of this name."""
        ...

    async def change_acls(self, added: Iterable[Acl], removed: Iterable[Acl] = ()) -> Mapping[Acl, KafkaError]:
        """Remove ACLs, then add others. Return the errors of those that stay as they were."""
        ...

    async def put_passwords(self, changes: Iterable[PasswordChange]) -> Mapping[str, KafkaError]:
        """Set or delete passwords. Return the errors of users whose passwords stay as they were."""
        ...


def missing_password() -> KafkaError:
    """Return the error of the deletion of a password that is not there."""
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
