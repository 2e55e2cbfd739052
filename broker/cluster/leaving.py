"""Controlled shutdown: before a broker stops, the controller moves its leaders to other brokers."""

from __future__ import annotations

import asyncio
import logging

from ...protocol.errors import ErrorCode
from ...protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ..configs.broker_config import BrokerConfig
from ..replication.controller_door import ControllerDoor
from ..replication.peer import PeerLost
from ..replication.replicas import Replicas

VERSION = 3

_log = logging.getLogger(__name__)


async def move_leaders_away(config: BrokerConfig, door: ControllerDoor, replicas: Replicas) -> None:
    """Ask the controller until this broker leads nothing that another could lead, or often enough.

    It is asked again after controlled.shutdown.retry.backoff.ms.
    """
    left = config.controlled_shutdown_max_retries
    while set(replicas.view.brokers) - {config.node_id}:
        if await _ask(config, door, replicas):
            return
        if left <= 0:
            _log.warning("this broker stops though it still leads partitions")
            return
        left -= 1
        await asyncio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)


async def _ask(config: BrokerConfig, door: ControllerDoor, replicas: Replicas) -> bool:
    """Return whether this broker may stop."""
    request = ControlledShutdownRequest(config.node_id, replicas.broker_epoch)
    try:
        response = await door.request(request, VERSION, ControlledShutdownResponse)
    except PeerLost as error:
        _log.warning("the controller does not move leaders away: %s", error.message)
        return False
    if response.error_code:
        _log.warning("the controller does not move leaders away: %s", ErrorCode.of(response.error_code).name)
        return False
    if response.remaining_partitions:
        _log.info("this broker still leads %d partitions", len(response.remaining_partitions))
    return not response.remaining_partitions
