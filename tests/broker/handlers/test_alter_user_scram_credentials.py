"""AlterUserScramCredentials and DescribeUserScramCredentials by Kafka's rules, and what a restart knows."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from odradek.tests.support.clients.raw import Raw

SHA256, SHA512 = 1, 2


def password(user: str = "alice", mechanism: int = SHA256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, b"salt", b"salted")


async def alter(raw: Raw, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, tuple[int, Any]]:
    deletions = [each for each in changes if isinstance(each, ScramCredentialDeletion)]
    upsertions = [each for each in changes if isinstance(each, ScramCredentialUpsertion)]
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    response = await raw.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {each.user: (each.error_code, each.error_message) for each in response.results}


async def describe(raw: Raw, *users: str, everyone: Any = None) -> dict[str, Any]:
    request = DescribeUserScramCredentialsRequest([UserName(each) for each in users] or everyone)
    response = await raw.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    assert response.error_code == 0
    return {
        each.user: each.error_message or [(one.mechanism, one.iterations) for one in each.credential_infos]
        for each in response.results
    }


async def test_passwords_are_set_described_and_deleted(raw: Raw) -> None:
    assert await alter(raw, password(), password("bob", SHA512, 16384)) == {"alice": (0, None), "bob": (0, None)}
    assert await alter(raw, password("alice", SHA512, 8192)) == {"alice": (0, None)}
    everybody = {"alice": [(SHA256, 4096), (SHA512, 8192)], "bob": [(SHA512, 16384)]}
    assert await describe(raw) == await describe(raw, everyone=[]) == everybody
    assert await alter(raw, ScramCredentialDeletion("alice", SHA256)) == {"alice": (0, None)}
    assert await describe(raw, "alice") == {"alice": [(SHA512, 8192)]}


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ([password("")], (93, "Username must not be empty")),
        (
            [ScramCredentialUpsertion("u" * 1001, SHA256, 4096, b"salt", b"salted")],
            (93, "A name has at most 1000 characters, salt and salted password have 1024 bytes"),
        ),
        (
            [ScramCredentialUpsertion("u", SHA256, 4096, b"s" * 1025, b"salted")],
            (93, "A name has at most 1000 characters, salt and salted password have 1024 bytes"),
        ),
        ([password(mechanism=3)], (33, "Unknown SCRAM mechanism")),
        ([password(iterations=4095)], (93, "Too few iterations")),
        ([password(iterations=16385)], (93, "Too many iterations")),
        (
            [ScramCredentialDeletion("nobody", SHA256)],
            (91, "Attempt to delete a user credential that does not exist"),
        ),
        (
            [password(), password(mechanism=SHA512)],
            (92, "A user credential cannot be altered twice in the same request"),
        ),
        ([password(iterations=1), password()], (93, "Too few iterations")),
        (
            [ScramCredentialDeletion("nobody", SHA256), password("nobody")],
            (91, "Attempt to delete a user credential that does not exist"),
        ),
        ([ScramCredentialUpsertion("u", SHA256, 4096, b"salt", b"")], (93, "The salted password must not be empty")),
    ],
)
async def test_a_wrong_change_is_rejected_and_others_are_made(raw: Raw, changes: list[Any], result: Any) -> None:
    results = await alter(raw, *changes, password("carol"))
    assert results == {changes[0].name: result, "carol": (0, None)}
    assert await describe(raw) == {"carol": [(SHA256, 4096)]}


async def test_a_second_change_of_a_user_is_one_too_many_whatever_it_is(raw: Raw) -> None:
    await alter(raw, password("u"))
    twice = (92, "A user credential cannot be altered twice in the same request")
    for second in (ScramCredentialDeletion("u", SHA512), ScramCredentialDeletion("u", 9), password("u", mechanism=9)):
        assert await alter(raw, ScramCredentialDeletion("u", SHA256), second) == {"u": twice}
    assert await describe(raw) == {"u": [(SHA256, 4096)]}


async def test_unknown_and_repeated_users_have_kafkas_texts(raw: Raw) -> None:
    why = "Attempt to describe a user credential that does not exist: x"
    assert await describe(raw, "x") == {"x": why}
    why = "Cannot describe SCRAM credentials for the same user twice in a single request: x"
    assert await describe(raw, "x", "x") == {"x": why}


async def test_a_restart_knows_each_password_also_behind_a_snapshot(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.broker.topics.metadata_journal.SNAPSHOT_RECORDS", 3)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await alter(raw, password(), password("bob"))
        await alter(raw, ScramCredentialDeletion("bob", SHA256), password("carol"))
        kept = broker.services.metadata.scram
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await describe(raw) == {"alice": [(SHA256, 4096)], "carol": [(SHA256, 4096)]}
        assert broker.services.metadata.scram == kept
