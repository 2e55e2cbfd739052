"""AlterUserScramCredentials and DescribeUserScramCredentials: the SCRAM passwords of users (KIP-554).

The client sends a password salted. The broker keeps two keys that it derives from it, in the metadata journal or in
ZooKeeper, before it answers. The rules and texts are those of Kafka 4: one change a user and request. In a cluster they
are those of Kafka 3.9: the controller makes one change a user, mechanism and request.
"""

from __future__ import annotations

from collections import Counter

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ..network.request import RequestContext
from ..security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, Credential, credential_of
from ..services import Services
from ..topics.security_store import missing_password
from ..turns import LargeResponse, fill, keeper

# By their numbers in the requests.
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
# No name that is longer can log in. Kafka has no such bounds.
MAX_NAME_CHARS = 1_000
MAX_SALT_BYTES = 1_024
# Some 10 microseconds each.
_WRITTEN_AT_ONCE = 500

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


async def alter_user_scram_credentials(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """AlterUserScramCredentials, API key 51: set and delete passwords.

    Make the changes that are right, many with one write, and return one result a user.
    """
    results: dict[str, AlterUserScramCredentialsResult] = {}
    wanted: list[tuple[str, str, Credential | None]] = []
    changed: set[tuple[str, int]] = set()
    for change in (*request.deletions, *request.upsertions):
        result = results.setdefault(change.name, AlterUserScramCredentialsResult(change.name, 0, None))
        if result.error_code:
            continue
        try:
            # As in Kafka a user once; in a cluster a user's password of one mechanism.
            target = change.name, change.mechanism if services.cluster is not None else 0
            if target in changed:
                why = "A user credential cannot be altered twice in the same request"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, why)
            changed.add(target)
            wanted.append(_checked(services, change))
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message
        await keeper().pause()
    # A user with an error in one change keeps all passwords.
    sound = [each for each in wanted if not results[each[0]].error_code]
    for first in range(0, len(sound), _WRITTEN_AT_ONCE):
        errors = await services.security.put_passwords(sound[first : first + _WRITTEN_AT_ONCE])
        for name, error in errors.items():
            results[name].error_code, results[name].error_message = int(error.code), error.message
        await keeper().pause()
    return AlterUserScramCredentialsResponse(results=list(results.values()))


def _checked(services: Services, change: _Change) -> tuple[str, str, Credential | None]:
    """Return the user, the mechanism and what is kept of the password; None deletes it. The KafkaErrors are Kafka's."""
    if services.cluster is not None:
        services.cluster.admin.check_controller()
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if mechanism not in services.security.passwords.get(change.name, {}):
            raise missing_password()
        return change.name, mechanism, None
    if len(change.name) > MAX_NAME_CHARS or max(len(change.salt), len(change.salted_password)) > MAX_SALT_BYTES:
        why = f"A name has at most {MAX_NAME_CHARS} characters, salt and salted password have {MAX_SALT_BYTES} bytes"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)
    if not change.salted_password:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    if change.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return change.name, mechanism, credential_of(mechanism, change.salted_password, change.salt, change.iterations)


def describe_user_scram_credentials(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse | LargeResponse[DescribeUserScramCredentialsResponse]:
    """DescribeUserScramCredentials, API key 50: which mechanisms users have a password for. Never the password.

    Return the requested users, or all for null and for an empty list.
    """
    names = [each.name for each in request.users or ()]
    times = Counter(names or list(services.security.passwords))
    response = DescribeUserScramCredentialsResponse()
    steps = (response.results.append(_describe(services, name, number)) for name, number in times.items())
    return fill(response, steps, 2 * len(times))


def _describe(services: Services, name: str, times: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(name)
    found = services.security.passwords.get(name)
    error: KafkaError | None = None
    if times > 1:
        why = "Cannot describe SCRAM credentials for the same user twice in a single request"
        error = KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"{why}: {name}")
    elif found is None:
        why = "Attempt to describe a user credential that does not exist"
        error = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"{why}: {name}")
    else:
        numbers = {name: number for number, name in MECHANISMS.items()}
        result.credential_infos = [CredentialInfo(numbers[each], found[each].iterations) for each in sorted(found)]
    if error is not None:
        result.error_code, result.error_message = int(error.code), error.message
    return result
