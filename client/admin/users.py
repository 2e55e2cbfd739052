"""Users with their SCRAM passwords (KIP-554) and quotas (KIP-546): DescribeClientQuotas (key 48), AlterClientQuotas
(49), DescribeUserScramCredentials (50), AlterUserScramCredentials (51).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...protocol.messages import alter_client_quotas as altered
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
)
from ...protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ...protocol.sasl import SCRAM_HASHES, salted_password
from ..core.cluster import Cluster
from ..core.leaders import for_items, retried
from ..core.options import check_choice, check_switches, items_of
from ..errors import ErrorCode, InvalidOption, KafkaError, error_of, raise_error

_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES = {number: name for name, number in _NUMBERS.items()}
_SALT_BYTES = 24

# In the place of a name: what has no quota of its own, and, to describe, every name.
DEFAULT_ENTITY = "<default>"
ANY_ENTITY = "<any>"

_KINDS = {"user": "user", "client_id": "client-id", "ip": "ip"}
_FIELDS = {kind: name for name, kind in _KINDS.items()}
_EXACT, _DEFAULT, _ANY = 0, 1, 2

# -- Passwords


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


async def describe_user_scram_credentials(cluster: Cluster, *users: str | Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the SCRAM mechanisms of users, or of all, with the iterations of their passwords.

    Raises KafkaError, RESOURCE_NOT_FOUND for a user without a password.
    """
    asked = items_of("describe_user_scram_credentials", str, users)
    request = DescribeUserScramCredentialsRequest([UserName(each) for each in asked] or None)

    async def attempt(_: list[str]) -> dict[str, dict[str, int] | KafkaError]:
        response = await cluster.request_any(request, DescribeUserScramCredentialsResponse)
        raise_error(response.error_code, response.error_message, "the SCRAM users cannot be described")
        found: dict[str, dict[str, int] | KafkaError] = {}
        for each in response.results:
            is_missing = ErrorCode.of(each.error_code) is ErrorCode.RESOURCE_NOT_FOUND
            what = f"user {each.user!r} {'has no SCRAM password' if is_missing else 'cannot be described'}"
            known = {_NAMES.get(one.mechanism, str(one.mechanism)): one.iterations for one in each.credential_infos}
            found[each.user] = error_of(each.error_code, each.error_message, what) or known
        return found

    if users:
        return await for_items(cluster, asked, attempt)
    return {
        user: found
        for user, found in (await cluster.retry(lambda: attempt([]))).items()
        if not isinstance(found, KafkaError)
    }


async def alter_user_scram_credentials(cluster: Cluster, *passwords: ScramPassword | Iterable[ScramPassword]) -> None:
    """Store passwords of users, or delete them. Only their salted hashes are sent."""
    # A broker takes one change of a user in a request: several come one after another.
    rounds: list[dict[str, ScramPassword]] = []
    for each in items_of("alter_user_scram_credentials", ScramPassword, passwords):
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
            each.user: error_of(
                each.error_code, each.error_message, f"the password of user {each.user!r} was not altered"
            )
            for each in response.results
        }

    await for_items(cluster, wanted, attempt)


def _upsertion(wanted: ScramPassword, password: str) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = salted_password(wanted.mechanism, password, salt, wanted.iterations)
    return ScramCredentialUpsertion(wanted.user, _NUMBERS[wanted.mechanism], wanted.iterations, salt, salted)


# -- Quotas


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Who a quota is for: a user, a client id, both together, or an address. DEFAULT_ENTITY stands for all others."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """The names that are given, by Kafka's kind of entity (user, client-id, ip)."""
        return {kind: name for field, kind in _KINDS.items() if (name := getattr(self, field)) is not None}


@retried
async def describe_client_quotas(
    cluster: Cluster,
    *,
    user: str | None = None,
    client_id: str | None = None,
    ip: str | None = None,
    strict: bool = False,
) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas of the entities that match a name, DEFAULT_ENTITY or ANY_ENTITY; of all without a name.

    `strict` leaves out entities with more parts than are named: of a user, those that also name a client id.
    """
    check_switches(strict=strict)
    wanted = QuotaEntity(user, client_id, ip)
    request = DescribeClientQuotasRequest([_component(*part) for part in wanted.parts.items()], strict)
    response = await cluster.request_any(request, DescribeClientQuotasResponse)
    raise_error(response.error_code, response.error_message, "the quotas cannot be described")
    return {_entity(each.entity): {one.key: one.value for one in each.values} for each in response.entries or ()}


def _component(kind: str, name: str) -> ComponentData:
    match = {DEFAULT_ENTITY: _DEFAULT, ANY_ENTITY: _ANY}.get(name, _EXACT)
    return ComponentData(kind, match, name if match == _EXACT else None)


def _entity(parts: Sequence[EntityData] | Sequence[altered.EntityData]) -> QuotaEntity:
    names = {each.entity_type: each.entity_name for each in parts}
    return QuotaEntity(**{_FIELDS[kind]: DEFAULT_ENTITY if name is None else name for kind, name in names.items()})


async def alter_client_quotas(
    cluster: Cluster, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
) -> None:
    """Set quotas, such as {"producer_byte_rate": 1e6}, of users, client ids or addresses; None removes one."""
    check_switches(validate_only=validate_only)
    for entity in changes:
        if not entity.parts or ANY_ENTITY in entity.parts.values():
            raise InvalidOption(f"a quota is for a user, a client id or an address, not for {entity}")

    async def attempt(entities: list[QuotaEntity]) -> dict[QuotaEntity, KafkaError | None]:
        entries = [altered.EntryData(_wire_entity(each), _ops(changes[each])) for each in entities]
        request = altered.AlterClientQuotasRequest(entries, validate_only)
        response = await cluster.request_any(request, altered.AlterClientQuotasResponse)
        return {
            (entity := _entity(each.entity)): error_of(
                each.error_code, each.error_message, f"the quotas of {entity} were not altered"
            )
            for each in response.entries
        }

    await for_items(cluster, changes, attempt)


def _wire_entity(entity: QuotaEntity) -> list[altered.EntityData]:
    return [altered.EntityData(kind, None if name == DEFAULT_ENTITY else name) for kind, name in entity.parts.items()]


def _ops(quotas: Mapping[str, float | None]) -> list[altered.OpData]:
    return [altered.OpData(name, value or 0.0, value is None) for name, value in quotas.items()]
