"""Clients of a principal, without TLS or SASL: the test names who a connection is."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.security_table import AUTHORIZERS
from odradek.broker.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from odradek.broker.security.principals import user

from ..brokers.connections import connections
from ..clients.raw import Raw

ADMIN = "User:admin"


def secured(config: BrokerConfig) -> BrokerConfig:
    """Return the config of a broker with an authorizer, whose super user is ADMIN."""
    return replace(config, authorizer_class_name=AUTHORIZERS[0], super_users=ADMIN)


async def connect_as(broker: Broker, name: str) -> Raw:
    """Return a connection of a user."""
    known = set(connections(broker))
    raw = await Raw.connect(broker.address)
    # The first response shows that the broker has the connection.
    raw.send_bytes(bytes.fromhex("0000000a00120000000000000000"))
    await raw.receive_bytes()
    (new,) = set(connections(broker)) - known
    new.principal = user(name)
    return raw


def allow(broker: Broker, who: str, operation: Operation, kind: ResourceType, name: str, prefixed: bool = False) -> Acl:
    """Let a user do something to a resource."""
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    acl = Acl(int(kind), name, int(pattern), f"User:{who}", "*", int(operation), int(Permission.ALLOW))
    change_acls(broker, [acl])
    return acl


def forbid(broker: Broker, acl: Acl) -> None:
    """Take an ACL away."""
    change_acls(broker, [], [acl])


def change_acls(broker: Broker, added: Iterable[Acl], removed: Iterable[Acl] = ()) -> None:
    """Change the ACLs of a broker that is alone, at once."""
    changing = broker.services.security.change_acls(added, removed)
    # It waits where the slice of this turn is over, as on a busy machine. Its end does what is left.
    with suppress(StopIteration):
        changing.send(None)
    changing.close()
