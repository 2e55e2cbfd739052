"""Notices to systemd (sd_notify): that the broker is ready, and that it stops.

systemd names a socket in NOTIFY_SOCKET to a service of Type=notify; a name that begins with @ is an abstract one.
Elsewhere the variable is not set, and nothing is sent.
"""

from __future__ import annotations

import logging
import os
import socket

READY, STOPPING = "READY=1", "STOPPING=1"

_log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Tell systemd of a state, if it has asked to be told."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("cannot tell systemd %s: %s", state, error.strerror)
