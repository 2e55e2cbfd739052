"""Requests about delegation tokens get what a Kafka without a key for them answers, by what the client has proved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.endpoint import SecurityProtocol
from odradek.broker.handlers import delegation_tokens as handlers
from odradek.broker.network.access import security
from odradek.broker.network.connection import Listener
from odradek.broker.security.principals import ANONYMOUS, Principal, user
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.tests.support.clients.raw import Raw

NOT_ALLOWED, DISABLED, NOT_AUTHORIZED, WRONG_TYPE = 64, 61, 65, 67


class Context:
    """A request of a client that has proved so much."""

    api_version = 3

    def __init__(self, protocol: SecurityProtocol, principal: Principal, may: bool = True) -> None:
        self.connection = SimpleNamespace(listener=Listener("L", protocol=protocol))
        self.principal, self._may = principal, may

    def may(self, *_: Any) -> bool:
        return self._may


def create(context: Context, **fields: Any) -> Any:
    request, none = CreateDelegationTokenRequest(**fields), cast(Any, None)
    asked: Any = context
    check = security.create_token.check
    assert check is not None
    made: Any = check(asked, request, lambda allowed: handlers.create_delegation_token(none, asked, allowed))
    owner, requester = f"{made.principal_type}:{made.principal_name}", made.token_requester_principal_name
    assert made.issue_timestamp_ms == made.expiry_timestamp_ms == made.max_timestamp_ms
    return made.error_code, made.expiry_timestamp_ms, owner, requester


@pytest.mark.parametrize("protocol", [SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL])
def test_who_has_proved_nothing_may_not_ask(protocol: SecurityProtocol) -> None:
    context: Any = Context(protocol, ANONYMOUS)
    assert create(context) == (NOT_ALLOWED, -1, "User:ANONYMOUS", "ANONYMOUS")
    other = {"owner_principal_type": "Group", "owner_principal_name": "o", "renewers": [CreatableRenewers("Group")]}
    assert create(context, **other) == (NOT_ALLOWED, -1, "Group:o", "ANONYMOUS")
    none: Any = None
    renewed = handlers.renew_delegation_token(none, context, RenewDelegationTokenRequest(b"x"))
    expired = handlers.expire_delegation_token(none, context, ExpireDelegationTokenRequest(b"x"))
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
    assert (expired.error_code, expired.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
    assert handlers.describe_delegation_token(none, context, DescribeDelegationTokenRequest()).error_code == NOT_ALLOWED


@pytest.mark.parametrize("protocol", [SecurityProtocol.SSL, SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL])
def test_who_has_proved_a_name_learns_that_there_are_no_tokens(protocol: SecurityProtocol) -> None:
    context: Any = Context(protocol, user("alice"))
    assert create(context) == (DISABLED, 0, "User:alice", "alice")
    assert create(context, renewers=[CreatableRenewers("User", "bob")]) == (DISABLED, 0, "User:alice", "alice")
    assert create(context, renewers=[CreatableRenewers("Group", "b")]) == (WRONG_TYPE, -1, "User:alice", "alice")
    other = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    assert create(context, **other) == (DISABLED, 0, "User:bob", "alice")
    stranger: Any = Context(protocol, user("alice"), may=False)
    assert create(stranger, **other) == (NOT_AUTHORIZED, -1, "User:bob", "alice")
    assert create(stranger) == (DISABLED, 0, "User:alice", "alice")
    none: Any = None
    renewed = handlers.renew_delegation_token(none, context, RenewDelegationTokenRequest(b"x"))
    expired = handlers.expire_delegation_token(none, context, ExpireDelegationTokenRequest(b"x"))
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (DISABLED, 0)
    assert (expired.error_code, expired.expiry_timestamp_ms) == (DISABLED, 0)
    assert handlers.describe_delegation_token(none, context, DescribeDelegationTokenRequest()).error_code == DISABLED


async def test_every_version_is_served(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        for key, highest, request in (
            (ApiKey.CREATE_DELEGATION_TOKEN, 3, CreateDelegationTokenRequest()),
            (ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest()),
            (ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ExpireDelegationTokenRequest()),
            (ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, DescribeDelegationTokenRequest()),
        ):
            for version in range(1, highest + 1):
                assert (await raw.ask(key, version, request)).error_code == NOT_ALLOWED
