"""Registration: the cluster that a broker belongs to, its id, and the sign that it is alive, as steps."""

from __future__ import annotations

from ...zookeeper.operations import Create, Put, Steps, create, read, write
from .znodes import (
    BROKER_SEQUENCE,
    CLUSTER_ID,
    STRANGER_SECRET,
    BadZnode,
    Registration,
    broker_path,
    decode_cluster_id,
    decode_registration,
    encode_cluster_id,
    encode_registration,
)


def join_cluster(own_id: str) -> Steps[str]:
    """Return the cluster's id; a cluster that has none yet gets `own_id`."""
    return decode_cluster_id((yield from _shared(CLUSTER_ID, encode_cluster_id(own_id))))


def share_secret(own: bytes) -> Steps[bytes]:
    """Return the secret by which the brokers of a cluster give salts to users that there are not; at first `own`."""
    return (yield from _shared(STRANGER_SECRET, own)) or own


def _shared(path: str, own: bytes) -> Steps[bytes | None]:
    """Return what a znode holds for all brokers: `own` if this is the first."""
    found = yield from read(path)
    if found is None:
        yield from create(Create(path, own))
        found = yield from read(path)
    return None if found is None else found.data


def take_broker_id(reserved_max_id: int) -> Steps[int]:
    """Return an id that no broker was ever given. The first is the one above reserved.broker.max.id.

    Raises BadZnode where somebody has removed `/brokers/seqid`, whose version counts the ids.
    """
    while True:
        found = yield from read(BROKER_SEQUENCE)
        if found is None:
            raise BadZnode(BROKER_SEQUENCE, "it has been removed, and with it the last id that was given out")
        failure = yield from write(Put(BROKER_SEQUENCE, b"", found.version))
        if failure is None:
            return reserved_max_id + found.version + 1


def holder_of(broker_id: int) -> Steps[Registration | None]:
    """Return what is registered with this id."""
    found = yield from read(broker_path(broker_id))
    return None if found is None else decode_registration(broker_id, found.data, found.czxid)


def register(broker: Registration, session_id: int) -> Steps[int | Registration]:
    """Make the broker's ephemeral znode, unless another session has made it. Watch for the next change of it.

    Return the broker's epoch, which numbers this registration over the whole ensemble; or what is registered with the
    id: another broker, or an earlier run of this one whose session still lives.
    """
    path = broker_path(broker.broker_id)
    while True:
        yield from create(Create(path, encode_registration(broker), ephemeral=True))
        found = yield from read(path, watch=True)
        if found is None:
            # The holder has gone in between.
            continue
        if found.owner == session_id:
            return found.czxid
        return decode_registration(broker.broker_id, found.data, found.czxid)
