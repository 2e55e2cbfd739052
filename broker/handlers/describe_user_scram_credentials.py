"""DescribeUserScramCredentials, API key 50: which SCRAM mechanisms users have a password for. Never the password."""

from __future__ import annotations

from collections import Counter

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ..network.request import RequestContext
from ..services import Services
from .alter_user_scram_credentials import MECHANISMS


def handle(
    services: Services, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the requested users, or all for null and for an empty list."""
    names = [each.name for each in request.users or ()]
    times = Counter(names or list(services.security.passwords))
    return DescribeUserScramCredentialsResponse(results=[_describe(services, name, times[name]) for name in times])


def _describe(services: Services, name: str, times: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(name)
    found = services.security.passwords.get(name)
    if times > 1:
        result.error_code = int(ErrorCode.DUPLICATE_RESOURCE)
        why = "Cannot describe SCRAM credentials for the same user twice in a single request"
        result.error_message = f"{why}: {name}"
    elif found is None:
        result.error_code = int(ErrorCode.RESOURCE_NOT_FOUND)
        result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
    else:
        numbers = {name: number for number, name in MECHANISMS.items()}
        result.credential_infos = [CredentialInfo(numbers[each], found[each].iterations) for each in sorted(found)]
    return result
