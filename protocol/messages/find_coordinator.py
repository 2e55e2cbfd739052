"""FindCoordinator, API key 10: which broker keeps a group or a transaction.

Versions: 1 key type (0 group, 1 transaction), error message and throttle time; 3 flexible; 4 several keys at once;
5 may say TRANSACTION_ABORTABLE; 6 share groups (key type 2, "group:topic id:partition").
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("4+", of="string")


class FindCoordinatorResponse(Message, request=FindCoordinatorRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array("4+")


class Coordinator(Struct):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)
