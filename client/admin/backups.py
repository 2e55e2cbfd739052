"""A backup of a running broker, for a tool on its machine: OdradekBeginBackup (30012), OdradekRenewLease (30011)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...protocol.messages.odradek_begin_backup import OdradekBeginBackupRequest, OdradekBeginBackupResponse
from ...protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest, OdradekRenewLeaseResponse
from ..core.cluster import Cluster
from ..errors import raise_error


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """What a broker holds for a backup: a directory in each of its data directories (storage/held_files.py).

    It holds them for `lease_ms` from the beginning and from each renewal.
    """

    directories: tuple[Path, ...]
    cluster_id: str
    lease_id: int
    lease_ms: int


async def begin_backup(cluster: Cluster) -> HeldFiles:
    """Have a broker that is alone hold its files as they are at one moment.

    Raises UnsupportedVersion for brokers that are not Odradek, INVALID_REQUEST for one of a cluster,
    THROTTLING_QUOTA_EXCEEDED while another backup is made, KAFKA_STORAGE_ERROR.
    """
    response = await cluster.request_any(OdradekBeginBackupRequest(), OdradekBeginBackupResponse)
    raise_error(response.error_code, response.error_message, "the broker cannot be backed up")
    directories = tuple(map(Path, response.directories))
    return HeldFiles(directories, response.cluster_id, response.lease_id, response.lease_ms)


async def renew_backup(cluster: Cluster, held: HeldFiles, *, is_end: bool = False) -> None:
    """Keep the files of a backup for longer; `is_end` gives them back. Raises RESOURCE_NOT_FOUND: they are gone."""
    request = OdradekRenewLeaseRequest(lease_id=held.lease_id, is_end=is_end)
    response = await cluster.request_any(request, OdradekRenewLeaseResponse)
    raise_error(response.error_code, None, "the broker holds the files of this backup no longer")
