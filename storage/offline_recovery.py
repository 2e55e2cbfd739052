"""The recovery of a log without a broker: as a start after a crash does it, then closed with all its indexes."""

from __future__ import annotations

from pathlib import Path

from .config import LogConfig
from .files import DISK, Disk
from .log import Log


def recover_offline(directory: Path, recovery_point: int, log_start_offset: int, now_ms: int, disk: Disk = DISK) -> Log:
    """Recover the log in `directory` and close it; return it closed. Raises StorageError.

    `recovery_point` (-1: not known) and `log_start_offset` come from the checkpoints.
    """
    log = Log.open(
        directory,
        # Only a broker knows when producers expire.
        LogConfig(producer_id_expiration_ms=2**62),
        clean=False,
        now_ms=now_ms,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        disk=disk,
    )
    log.load_indexes()
    log.close()
    return log
