"""AlterUserScramCredentials, API key 51: set and delete the SCRAM passwords of users (KIP-554).

The client sends a password salted. The broker keeps two keys that it derives from it, in the metadata journal, before
it answers. The rules and texts are those of Kafka 4: one change a user and request.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ..network.request import RequestContext
from ..security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, Credential, credential_of

if TYPE_CHECKING:
    from ..services import Services

# By their numbers in the requests.
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(
    services: Services, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Make the changes that are right with one write, and return one result a user."""
    changes = [*request.deletions, *request.upsertions]
    times = Counter(each.name for each in changes)
    results: dict[str, AlterUserScramCredentialsResult] = {}
    wanted: list[tuple[str, str, Credential | None]] = []
    for change in changes:
        if change.name in results:
            continue
        results[change.name] = AlterUserScramCredentialsResult(change.name, 0, None)
        try:
            wanted.append(_checked(services, change, times[change.name]))
        except KafkaError as error:
            results[change.name].error_code, results[change.name].error_message = int(error.code), error.message
    if wanted:
        _write(services, wanted, results)
    return AlterUserScramCredentialsResponse(results=list(results.values()))


def _write(
    services: Services,
    wanted: list[tuple[str, str, Credential | None]],
    results: dict[str, AlterUserScramCredentialsResult],
) -> None:
    try:
        services.metadata.put_scram(wanted)
    except KafkaError as error:
        for name, _, _ in wanted:
            results[name].error_code, results[name].error_message = int(error.code), error.message


def _checked(services: Services, change: _Change, times: int) -> tuple[str, str, Credential | None]:
    """Return the user, the mechanism and what is kept of the password; None deletes it. The KafkaErrors are Kafka's."""
    if times > 1:
        why = "A user credential cannot be altered twice in the same request"
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, why)
    if services.cluster is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "passwords of SCRAM are not kept in ZooKeeper yet")
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if mechanism not in services.metadata.scram.get(change.name, {}):
            why = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, why)
        return change.name, mechanism, None
    if change.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return change.name, mechanism, credential_of(mechanism, change.salted_password, change.salt, change.iterations)
