"""A coordinator of groups that has begun, without a broker."""

from __future__ import annotations

import pytest
from odradek.tests.broker.coordination.classic.world import World


@pytest.fixture
async def world() -> World:
    world = World()
    world.groups.start()
    return world
