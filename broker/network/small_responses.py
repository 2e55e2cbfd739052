"""The APIs whose responses are no larger than their requests, but for a factor.

Any other small request may have a large response: of all topics, groups, members or configs. It waits while clients do
not read what they asked for (connection_memory.py). These never wait, so producing, fetching and groups go on.
"""

from __future__ import annotations

from struct import Struct

from ...protocol.apis import ApiKey
from ...protocol.codec import Buffer

# From this version on batches go out as ranges of files. Older ones are converted in memory.
_FETCH_BY_RANGES = 4
_SMALL = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.OFFSET_COMMIT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
# A request of more may have a large response, whatever its API.
SMALL_REQUEST_BYTES = 64 * 1024

_KEY_AND_VERSION = Struct(">hh")


def has_small_response(buffer: Buffer, start: int, size: int) -> bool:
    """Return whether the request in the `size` bytes from `start` on has a small response for certain."""
    if not _KEY_AND_VERSION.size <= size <= SMALL_REQUEST_BYTES:
        return size < _KEY_AND_VERSION.size  # that is no request
    key, version = _KEY_AND_VERSION.unpack_from(buffer, start)
    return key in _SMALL and (key != ApiKey.FETCH or version >= _FETCH_BY_RANGES)
