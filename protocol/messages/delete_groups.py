"""DeleteGroups, API key 42: groups with all that they have committed.

Versions: 1 as 0; 2 flexible; 3 an error in words.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, key=42, versions="0-3", flexible="2+"):
    groups_names: list[str] = array("0+", of="string")


class DeleteGroupsResponse(Message, request=DeleteGroupsRequest):
    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array("0+")


class DeletableGroupResult(Struct):
    group_id: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)
