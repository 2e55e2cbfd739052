"""OdradekLeaseSegments, OdradekRenewLease and OdradekBeginBackup: tools on this machine read the files themselves.

A client that may fetch the partition may lease it: the same checks of topic, leader epoch and offset, and the same end
by isolation level. The files are found in a thread, and then leased (topics/segment_leases.py).
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.odradek_begin_backup import OdradekBeginBackupRequest, OdradekBeginBackupResponse
from ...protocol.messages.odradek_lease_segments import (
    AbortedTransaction,
    LeasedFile,
    OdradekLeaseSegmentsRequest,
    OdradekLeaseSegmentsResponse,
)
from ...protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest, OdradekRenewLeaseResponse
from ...protocol.primitives import ZERO_UUID
from ...storage.errors import StorageError
from ...storage.leased_files import Extent, find_extent
from ..network.request import RequestContext
from ..services import Services
from ..topics.disk_reads import read_from_disk
from ..topics.live_backup import LiveBackup
from ..topics.partition import Partition
from ..topics.partition_state import READ_COMMITTED, READ_UNCOMMITTED
from ..topics.segment_leases import BACKUP_MAX_LIFE_MS

# Files of one lease. With more, the reader asks again.
MAX_FILES = 256
# Retention or compaction may replace a file between the look-up and the link, which then begin again.
MAX_ATTEMPTS = 3


async def odradek_lease_segments(
    services: Services, context: RequestContext, request: OdradekLeaseSegmentsRequest
) -> OdradekLeaseSegmentsResponse:
    """OdradekLeaseSegments, API key 30010, ours: find the files and lease them, or return why that is not possible."""
    try:
        services.segment_leases.check_room()
        response = await _lease(services, request, _find(services, request))
    except KafkaError as error:
        return OdradekLeaseSegmentsResponse(error_code=int(error.code), error_message=error.message)
    # The client reads the files itself, as fast as it likes: only between two leases can it wait.
    size = sum(each.end - each.position for each in response.files)
    context.throttle(response, services.quotas.delivered(*context.client, size))
    return response


def _find(services: Services, request: OdradekLeaseSegmentsRequest) -> Partition:
    """Return the partition of a request. Raises KafkaError."""
    topics = services.topics
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED) or request.max_files < 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the isolation level is 0 or 1, and max_files at least 1")
    by_id = request.topic_id != ZERO_UUID
    topic = topics.by_id(request.topic_id) if by_id else topics.get(request.topic)
    if topic is None or topic.name != request.topic:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(unknown, f"there is no topic {request.topic} of this id" if by_id else unknown.text)
    partition = topic.partition(request.partition)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{request.topic} has no partition {request.partition}")
    partition.check_epoch(request.current_leader_epoch)
    return partition


async def _lease(
    services: Services, request: OdradekLeaseSegmentsRequest, partition: Partition
) -> OdradekLeaseSegmentsResponse:
    for attempt in range(MAX_ATTEMPTS):
        response, extent = await _look_up(services, request, partition)
        if not extent.parts:
            return response
        segments = partition.log.segments
        try:
            lease = await services.segment_leases.grant(partition.log.directory, extent, partition.topic)
        except StorageError:
            if partition.log.segments is segments or attempt + 1 == MAX_ATTEMPTS:
                raise
            continue
        response.lease_id = lease.id
        response.directory = str(lease.directories[0].absolute())
        return response
    raise AssertionError("the last attempt raises")


async def _look_up(
    services: Services, request: OdradekLeaseSegmentsRequest, partition: Partition
) -> tuple[OdradekLeaseSegmentsResponse, Extent]:
    """Return the response but for the lease, and what is to be leased. Raises KafkaError."""
    is_committed = request.isolation_level == READ_COMMITTED
    up_to = partition.end_for(request.isolation_level)
    log, leases = partition.log, services.segment_leases
    response = OdradekLeaseSegmentsResponse(
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=log.log_start_offset,
        lease_ms=leases.lease_ms,
        max_life_ms=leases.max_life_ms,
    )
    extent = await read_from_disk(
        partition,
        lambda view: find_extent(
            view, request.start_offset, request.end_offset, up_to,
            with_aborted=is_committed, max_files=min(request.max_files, MAX_FILES),
        ),
        services.threads,
    )  # fmt: skip
    response.next_offset = extent.next_offset
    data = services.log_dirs.of(log).data
    if data is None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory.parent} is offline")
    response.cluster_id, response.directory_id = data.meta.cluster_id, data.meta.directory_id
    response.files = [
        LeasedFile(each.name, each.position, each.end, each.base_offset, each.next_offset) for each in extent.parts
    ]
    response.aborted_transactions = [
        AbortedTransaction(each.producer_id, each.first_offset, each.last_offset) for each in extent.aborted
    ]
    return response, extent


def odradek_renew_lease(
    services: Services, context: RequestContext, request: OdradekRenewLeaseRequest
) -> OdradekRenewLeaseResponse:
    """OdradekRenewLease, API key 30011, ours: keep leased files for longer, or end the lease.

    Raises RESOURCE_NOT_FOUND where it has ended.
    """
    leases = services.segment_leases
    if request.is_end:
        leases.end(request.lease_id)
        return OdradekRenewLeaseResponse()
    return OdradekRenewLeaseResponse(lease_ms=leases.renew(request.lease_id))


async def odradek_begin_backup(
    services: Services, context: RequestContext, request: OdradekBeginBackupRequest
) -> OdradekBeginBackupResponse:
    """OdradekBeginBackup, API key 30012, ours: links to everything that this broker has on disk at one moment.

    The copy is made by a tool on the same machine (`odradek backup -b ADDRESS`), while the broker goes on.
    """
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
    paths = services.log_dirs.paths_with_metadata
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
