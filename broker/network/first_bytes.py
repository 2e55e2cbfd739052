"""What a client speaks, by the first bytes that it sends: for the log, where a listener speaks something else."""

from __future__ import annotations

# The header of a TLS record: type, version, and the bytes that follow.
HEADER_BYTES = 5
# The type of a record with a ClientHello.
HELLO = 0x16
# More is not waited for: a ClientHello may be larger than what the socket receives at a time.
_MAX_AWAITED_BYTES = 4096
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE", b"CONN", b"PRI ")


def record_bytes(head: bytes) -> int | None:
    """Return the size of the record that begins with `head`, at most what is waited for; None where more must come."""
    if len(head) < HEADER_BYTES:
        return None
    return min(HEADER_BYTES + int.from_bytes(head[3:5]), _MAX_AWAITED_BYTES)


def guess(head: bytes) -> str:
    """Return in words what begins with these bytes."""
    if is_tls(head):
        return "a TLS handshake"
    if head[:4] in _HTTP:
        return "an HTTP request"
    if head[:4] == b"SSH-":
        return "an SSH client"
    # The length of a Kafka request: the two highest bytes of the ordinary ones are 0.
    if head[:2] == b"\0\0":
        return "a Kafka request without TLS"
    return f"bytes that begin with {head.hex()}"


def is_tls(head: bytes) -> bool:
    """Return whether these bytes begin a TLS record of a handshake."""
    return len(head) >= 2 and head[0] == HELLO and head[1] == 3
