"""Candidacy: how a broker becomes the controller, as steps. Source: `/controller` and `/controller_epoch`.

The first broker that makes `/controller` is it. It raises the epoch in the same transaction, so two brokers never have
the same epoch, and the version of `/controller_epoch` is the fence of everything that it writes later.
"""

from __future__ import annotations

from typing import NamedTuple

from ....zookeeper.operations import Create, Delete, Put, Steps, read, write
from ..znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)


class Won(NamedTuple):
    """This broker is the controller. `fence` is the version of `/controller_epoch` that its writes require."""

    epoch: int
    fence: int


def stand(broker_id: int, now_ms: int) -> Steps[Won | None]:
    """Become the controller if there is none, and watch for the end of the one that there is, another broker: None.

    Raises BadZnode where `/controller` or `/controller_epoch` makes no sense. Both are watched: when somebody has
    mended it, this broker stands again.

    A term of this broker that is still written down is one that it has given up: it ends, and another begins.
    """
    while True:
        present = yield from read(CONTROLLER, watch=True)
        if present is not None:
            if decode_controller(present.data) != broker_id:
                return None
            if (yield from write(Delete(CONTROLLER, present.version))) is not None:
                continue
        yield from write(Create(CONTROLLER_EPOCH, encode_controller_epoch(0)))
        known = yield from read(CONTROLLER_EPOCH, watch=True)
        if known is None:
            continue
        epoch = decode_controller_epoch(known.data) + 1
        claim = Create(CONTROLLER, encode_controller(broker_id, now_ms), ephemeral=True)
        if (yield from write(claim, Put(CONTROLLER_EPOCH, encode_controller_epoch(epoch), known.version))) is None:
            return Won(epoch, known.version + 1)


def step_down(broker_id: int) -> Steps[None]:
    """Give the controller up, so that any broker may become it."""
    present = yield from read(CONTROLLER)
    if present is not None and decode_controller(present.data) == broker_id:
        yield from write(Delete(CONTROLLER, present.version))


def is_elected(broker_id: int, epoch: int) -> Steps[bool]:
    """Return whether this broker still is the controller of `epoch`, and watch for the next change. Raises BadZnode."""
    present = yield from read(CONTROLLER, watch=True)
    known = yield from read(CONTROLLER_EPOCH, watch=True)
    if present is None or known is None:
        return False
    return decode_controller(present.data) == broker_id and decode_controller_epoch(known.data) == epoch
