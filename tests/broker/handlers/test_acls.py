"""DescribeAcls, CreateAcls and DeleteAcls get what a Kafka without an authorizer sends, byte for byte."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import odradek
import pytest
from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.tests.support.clients.raw import Raw

GOLDEN = Path(odradek.__path__[0]) / "tests" / "golden" / "wire"


def exchanges(api: str) -> list[list[str]]:
    return [line.split("\t") for line in (GOLDEN / f"{api}.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize("api", ["DescribeAcls", "CreateAcls", "DeleteAcls"])
async def test_the_response_is_kafkas(broker: Broker, api: str) -> None:
    for case, version, outcome, request, response in exchanges(api):
        async with await Raw.connect(broker.address) as raw:
            data = bytes.fromhex(request)
            raw.send_bytes(pack(">i", len(data)) + data)
            if outcome == "closed":
                assert await raw.is_closed(), (case, version)
            else:
                assert (await raw.receive_bytes()).hex() == response, (case, version)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_thousands_of_acls_get_the_same_error_each(raw: Raw, version: int) -> None:
    acls = [AclCreation(2, f"topic-{at}", 3, "User:a", "*", 3, 3) for at in range(3_000)]
    created = await raw.ask(ApiKey.CREATE_ACLS, version, CreateAclsRequest(acls))
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 3_000
    filters = [DeleteAclsFilter(2, f"topic-{at}", 3, "User:a", "*", 3, 3) for at in range(3_000)]
    deleted = await raw.ask(ApiKey.DELETE_ACLS, version, DeleteAclsRequest(filters))
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED] * 3_000
