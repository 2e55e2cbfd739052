"""OdradekBeginBackup, API key 30012, ours: links to everything that this broker has on disk at one moment.

The copy is made by a tool on the same machine (`odradek backup -b ADDRESS`), while the broker goes on.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.odradek_begin_backup import OdradekBeginBackupRequest, OdradekBeginBackupResponse
from ..network.request import RequestContext
from ..services import Services
from ..topics.live_backup import LiveBackup
from ..topics.segment_leases import BACKUP_MAX_LIFE_MS


async def handle(
    services: Services, context: RequestContext, request: OdradekBeginBackupRequest
) -> OdradekBeginBackupResponse:
    """Hold the files, or return why that is not possible."""
    try:
        _check(services)
        return await _hold(services)
    except KafkaError as error:
        return OdradekBeginBackupResponse(error_code=int(error.code), error_message=error.message)


def _check(services: Services) -> None:
    """Raise KafkaError where the files of this broker are not everything that there is."""
    if services.replicas is not None:
        why = "a broker of a cluster knows no common moment with the others: stop it, then name its directories"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    for each in services.log_dirs.all:
        if not each.is_online or each.unread:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{each.path} is offline, or partitions in it are")


async def _hold(services: Services) -> OdradekBeginBackupResponse:
    leases = services.segment_leases
    paths = services.log_dirs.paths_to_back_up
    lease = leases.begin_backup(paths)
    backup = LiveBackup(
        services.topics, services.metadata, dict(zip(paths, lease.directories, strict=True)),
        services.threads, services.disk,
    )  # fmt: skip
    try:
        await backup.hold()
    except KafkaError:
        # Where the client has gone instead, a thread may be making links: they go when the lease expires.
        leases.end(lease.id)
        raise
    return OdradekBeginBackupResponse(
        lease_id=lease.id,
        lease_ms=leases.lease_ms,
        max_life_ms=BACKUP_MAX_LIFE_MS,
        cluster_id=services.metadata.cluster_id,
        directories=[str(each.absolute()) for each in lease.directories],
    )
