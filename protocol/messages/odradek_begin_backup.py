"""OdradekBeginBackup, API key 30012, ours: the files of a running broker as they are at one moment, kept for a copy.

Each directory of the answer lies in a data directory, in the order of `log.dirs`. It holds links to files, and
`contents.json`, which says what belongs to the backup (storage/held_files.py). OdradekRenewLease keeps them, and gives
them back. Version 0 is the only one.
"""

from __future__ import annotations

from ..schema import Message, array, int16, int32, int64, string


class OdradekBeginBackupRequest(Message, key=30012, versions="0", flexible="0+"):
    pass


class OdradekBeginBackupResponse(Message, request=OdradekBeginBackupRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    lease_id: int = int64("0+", default=-1)
    # The lease ends when it is not renewed for so long, and at the latest after `max_life_ms`.
    lease_ms: int = int64("0+")
    max_life_ms: int = int64("0+")
    cluster_id: str = string("0+")
    directories: list[str] = array("0+", of="string")
