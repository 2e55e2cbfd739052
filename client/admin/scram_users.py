"""Users with a SCRAM password: DescribeUserScramCredentials (key 50), AlterUserScramCredentials (51), KIP-554."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ..core.cluster import Cluster
from ..core.options import check_choice
from ..core.sasl import SCRAM_HASHES, salted_password
from ..errors import ErrorCode, InvalidOption, KafkaError, raise_error
from .items import for_items, item_result

_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES = {number: name for name, number in _NUMBERS.items()}
_SALT_BYTES = 24


@dataclass(frozen=True, slots=True)
class ScramPassword:
    """A password to store for a user; `password=None` deletes the one of that mechanism. Brokers take 4,096 iterations
    to 16,384. The password itself is not sent, only its salted hash.
    """

    user: str
    mechanism: str = "SCRAM-SHA-512"
    password: str | None = field(default=None, repr=False)
    iterations: int = 4_096

    def __post_init__(self) -> None:
        check_choice("mechanism", self.mechanism, SCRAM_HASHES)
        if self.password == "":
            raise InvalidOption("a SCRAM password must not be empty; None deletes it")


async def describe(cluster: Cluster, users: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the mechanisms of users, or of all, with the iterations of their passwords."""
    names = list(users)
    request = DescribeUserScramCredentialsRequest([UserName(each) for each in names] or None)

    async def attempt(_: list[str]) -> dict[str, dict[str, int] | KafkaError]:
        response = await cluster.request_any(request, DescribeUserScramCredentialsResponse)
        raise_error(response.error_code, response.error_message, "the SCRAM users cannot be described")
        return {
            each.user: item_result(
                {_NAMES.get(one.mechanism, str(one.mechanism)): one.iterations for one in each.credential_infos},
                each.error_code,
                each.error_message,
                f"user {each.user!r} has no SCRAM password"
                if ErrorCode.of(each.error_code) is ErrorCode.RESOURCE_NOT_FOUND
                else f"user {each.user!r} cannot be described",
            )
            for each in response.results
        }

    if names:
        return await for_items(cluster, names, attempt)
    return {
        user: found
        for user, found in (await cluster.retry(lambda: attempt([]))).items()
        if not isinstance(found, KafkaError)
    }


async def alter(cluster: Cluster, passwords: Iterable[ScramPassword]) -> None:
    """Store and delete passwords. A broker takes one change of a user in a request: several come one after another."""
    rounds: list[dict[str, ScramPassword]] = []
    for each in passwords:
        for one in rounds:
            if each.user not in one:
                one[each.user] = each
                break
        else:
            rounds.append({each.user: each})
    for one in rounds:
        await _alter_once(cluster, one)


async def _alter_once(cluster: Cluster, wanted: dict[str, ScramPassword]) -> None:
    async def attempt(users: list[str]) -> dict[str, KafkaError | None]:
        changes = [wanted[user] for user in users]
        request = AlterUserScramCredentialsRequest(
            [ScramCredentialDeletion(each.user, _NUMBERS[each.mechanism]) for each in changes if not each.password],
            [_upsertion(each, each.password) for each in changes if each.password],
        )
        response = await cluster.request_controller(request, AlterUserScramCredentialsResponse)
        return {
            each.user: item_result(
                None, each.error_code, each.error_message, f"the password of user {each.user!r} was not altered"
            )
            for each in response.results
        }

    await for_items(cluster, wanted, attempt)


def _upsertion(wanted: ScramPassword, password: str) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = salted_password(wanted.mechanism, password, salt, wanted.iterations)
    return ScramCredentialUpsertion(wanted.user, _NUMBERS[wanted.mechanism], wanted.iterations, salt, salted)
