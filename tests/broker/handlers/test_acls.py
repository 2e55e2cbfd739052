"""DescribeAcls, CreateAcls and DeleteAcls get what a Kafka without an authorizer sends, byte for byte."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import odradek
import pytest
from odradek.broker import Broker
from odradek.tests.support.raw import Raw

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
