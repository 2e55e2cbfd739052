"""The requests of one member to its group's coordinator: JoinGroup (key 11), SyncGroup (14), Heartbeat (12) and
LeaveGroup (13).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ..core.committed_offsets import Generation
from ..core.connection_pool import REBALANCE
from ..core.coordinator import Coordinator
from .options import GroupOptions

PROTOCOL_TYPE = "consumer"
_FIRST_BATCH_LEAVE = 3  # LeaveGroup 3 takes several members
# The coordinator responds to JoinGroup and SyncGroup when the rebalance ends. The network gets this much on top.
_NETWORK_MARGIN_MS = 5_000


class GroupRequests:
    """Sends requests, each once. Raises KafkaError."""

    def __init__(self, coordinator: Coordinator, options: GroupOptions) -> None:
        self._coordinator = coordinator
        self._options = options
        self._rebalance_timeout_ms = options.max_poll_interval_ms + _NETWORK_MARGIN_MS

    def raise_error(self, code: int, operation: str) -> None:
        """Raise KafkaError for an error code of the coordinator's, unless it is 0."""
        self._coordinator.raise_error(code, operation)

    async def join(self, member_id: str, protocols: list[JoinGroupRequestProtocol]) -> JoinGroupResponse:
        """Send JoinGroup. Return its response with any error code."""
        request = JoinGroupRequest(
            group_id=self._options.group_id,
            session_timeout_ms=self._options.session_timeout_ms,
            rebalance_timeout_ms=self._options.max_poll_interval_ms,
            member_id=member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )
        return await self._coordinator.request(
            request, JoinGroupResponse, timeout_ms=self._rebalance_timeout_ms, purpose=REBALANCE
        )

    async def sync(
        self, generation: Generation, protocol: str | None, assignments: Sequence[SyncGroupRequestAssignment]
    ) -> bytes:
        """Send SyncGroup with the leader's assignments, or none. Return this member's assignment, encoded."""
        request = SyncGroupRequest(
            group_id=self._options.group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=generation.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol,
            assignments=list(assignments),
        )
        response = await self._coordinator.request(
            request, SyncGroupResponse, timeout_ms=self._rebalance_timeout_ms, purpose=REBALANCE
        )
        self.raise_error(response.error_code, "synchronising")
        return response.assignment

    async def heartbeat(self, generation: Generation) -> None:
        """Send Heartbeat."""
        request = HeartbeatRequest(
            group_id=self._options.group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=generation.group_instance_id,
        )
        response = await self._coordinator.request(request, HeartbeatResponse)
        self.raise_error(response.error_code, "a heartbeat")

    async def leave(self, member_id: str, reason: str) -> None:
        """Send LeaveGroup and ignore an error code in its response."""
        connection = await self._coordinator.connection()
        request = LeaveGroupRequest(group_id=self._options.group_id, member_id=member_id)
        if connection.version_for(LeaveGroupRequest) >= _FIRST_BATCH_LEAVE:
            identity = MemberIdentity(member_id=member_id, reason=reason)
            request = LeaveGroupRequest(group_id=self._options.group_id, members=[identity])
        await connection.request(request, LeaveGroupResponse)
