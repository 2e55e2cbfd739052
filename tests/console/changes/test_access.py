"""The console's form of a new ACL: what can match nobody is refused, as by the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.security_table import AUTHORIZERS
from odradek.cli.acls import objection
from odradek.client import Admin
from odradek.console import Console, ConsoleConfig
from odradek.console.cluster import ClusterOptions
from odradek.tests.console.conftest import Browser
from odradek.tests.support.brokers.process import FEW_PARTITIONS

ALLOWED = {"principal": "alice", "operation": "read", "resource": "topic", "name": "t"}


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Broker]:
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path / "data"),),
        authorizer_class_name=AUTHORIZERS[0],
        super_users="User:ANONYMOUS",
        **FEW_PARTITIONS,
    )
    async with Broker(config) as broker:
        yield broker


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"principal": "user:alice"}, "User:alice"),
        ({"principal": "Group:ops"}, "User:ops"),
        ({"name": "or*ders"}, "topic:or*"),
        ({"host": "::1"}, "0:0:0:0:0:0:0:1"),
        ({"host": "10.0.0.0/33"}, "a range as 10.0.0.0/8"),
        ({"resource": "group", "operation": "write"}, "it takes all, read, delete, describe"),
    ],
)
async def test_an_acl_that_can_match_nobody_is_refused(guarded: Broker, changed: dict[str, str], says: str) -> None:
    config = ConsoleConfig(ClusterOptions(guarded.address), port=0, why_unmatchable=objection)
    async with Console(config) as console, Admin(guarded.address) as admin:
        browser = Browser(console.url)
        page = await browser.send("/change/add-acl", **{**ALLOWED, **changed})
        assert (page.status, says in page.visible) == (400, True), page.visible
        assert await admin.describe_acls() == []
        page = await browser.change("/change/add-acl", **ALLOWED)
        assert "Done" in page.visible, page.visible
        assert len(await admin.describe_acls()) == 1
