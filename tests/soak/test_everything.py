"""Everything at once for ODRADEK_SOAK_S seconds, 1,200 by default: see tests/support/histories/everything.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from odradek.tests.support.clients.others import has_java
from odradek.tests.support.histories import everything

SECONDS = float(os.environ.get("ODRADEK_SOAK_S", "1200"))

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


async def test_nothing_is_lost_and_nothing_grows_with_everything_at_once(tmp_path: Path) -> None:
    counts = await everything.run(tmp_path, SECONDS, seed=1)
    print(dict(counts))
    kinds = {"kept", "kept by librdkafka", "kept by aiokafka", "transactions", "compacted", "deleted", "consumed"}
    kinds |= {"memberships", "slow reads", "kills"} | ({"kept by java"} if has_java() else set())
    assert all(counts[each] for each in kinds), f"something was never done: {counts}"
