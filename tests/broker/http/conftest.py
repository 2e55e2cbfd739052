"""A broker with an HTTP endpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.broker import BrokerConfig


@pytest.fixture
def config(config: BrokerConfig) -> BrokerConfig:
    return replace(config, http_listener="0")
