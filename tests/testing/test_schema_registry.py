"""The schema registry of the test kit, over brokers whose clients encrypt or log in."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.testing import LocalSchemaRegistry, kafka


@pytest.mark.parametrize("how", [{}, {"users": {"alice": "secret"}}, {"tls": True}])
def test_it_runs_over_a_broker_however_its_clients_connect(how: dict[str, Any]) -> None:
    if how.get("tls"):
        pytest.importorskip("cryptography", reason="tls=True makes certificates (extra `certs`)")
    with kafka(**how) as cluster, LocalSchemaRegistry(cluster) as registry:
        assert registry.register("s", '"string"') == 1 and registry.subjects() == ["s"]
