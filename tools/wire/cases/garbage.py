"""Bytes that are no request: some get a response, others end the connection."""

from __future__ import annotations

import struct

from odradek.protocol.primitives import encode_uvarint

from ..connection import Wire
from ..plain import encode_body


def run(wire: Wire) -> None:
    header = struct.pack(">hhih", 3, 1, 1, 0)
    flexible = struct.pack(">hhih", 3, 9, 1, 0) + b"\0"
    good = encode_body("Metadata", 1, {"Topics": []})
    for case, data in (
        ("size 0", struct.pack(">i", 0)),
        ("size negative", struct.pack(">i", -1)),
        ("size above socket.request.max.bytes", struct.pack(">i", 104_857_601)),
        ("size largest", struct.pack(">i", 0x7FFFFFFF)),
        ("shorter than a header", framed(b"\0\x03\0")),
        ("header cut behind the correlation id", framed(header[:8])),
        ("good", framed(header + good)),
        ("client id null", framed(struct.pack(">hhih", 3, 1, 1, -1) + good)),
        ("client id longer than the frame", framed(struct.pack(">hhih", 3, 1, 1, 1000) + good)),
        ("client id not UTF-8", framed(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe" + good)),
        ("client id length -2", framed(struct.pack(">hhih", 3, 1, 1, -2) + good)),
        ("body missing", framed(header)),
        ("body cut", framed(header + struct.pack(">ih", 1, 20) + b"abc")),
        ("bytes left over", framed(header + good + b"\0\0\0")),
        ("array longer than the frame", framed(header + struct.pack(">i", 1_000_000))),
        ("array length largest", framed(header + struct.pack(">i", 0x7FFFFFFF))),
        ("array length -2", framed(header + struct.pack(">i", -2))),
        ("topic name null", framed(header + struct.pack(">ih", 1, -1))),
        ("unknown API key", framed(struct.pack(">hhih", 999, 0, 1, 0))),
        ("negative API key", framed(struct.pack(">hhih", -1, 0, 1, 0))),
        ("API that 4.x dropped (4)", framed(struct.pack(">hhih", 4, 0, 1, 0) + b"\0" * 40)),
        ("inter-broker API (7)", framed(struct.pack(">hhih", 7, 3, 1, 0) + b"\0" * 40)),
        ("raft API (52)", framed(struct.pack(">hhih", 52, 0, 1, 0) + b"\0" * 40)),
        ("version above", framed(struct.pack(">hhih", 3, 99, 1, 0) + b"\0" * 9)),
        ("version below", framed(struct.pack(">hhih", 1, 3, 1, 0) + b"\0" * 20)),
        ("version negative", framed(struct.pack(">hhih", 3, -1, 1, 0) + good)),
        ("ApiVersions with rubbish behind", framed(struct.pack(">hhih", 18, 0, 1, 0) + b"\xff" * 20)),
        ("ApiVersions v3 with no body", framed(struct.pack(">hhih", 18, 3, 1, 0))),
        ("flexible, varint without end", framed(flexible + b"\xff" * 12)),
        ("flexible, array longer than the frame", framed(flexible + encode_uvarint(1_000_000))),
        ("flexible, array length overflows", framed(flexible + b"\xff\xff\xff\xff\x7f")),
        ("flexible, unknown tag", framed(flexible + b"\x01" + b"\x01\0\0" + b"\x01" + b"\x63\x02ab")),
        ("flexible, tag longer than the frame", framed(flexible + b"\x01" + b"\x01\0\0" + b"\x01" + b"\x63\x7fab")),
        (
            "flexible, unknown header tag",
            framed(struct.pack(">hhih", 3, 9, 1, 0) + b"\x01\x63\x02ab" + b"\x01\x01\0\0\0"),
        ),
        ("flexible, bytes left over", framed(flexible + b"\x01\x01\0\0\0" + b"\0\0")),
        ("bool that is 7", framed(struct.pack(">hhih", 3, 4, 1, 0) + struct.pack(">ib", 0, 7))),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("TLS client hello", bytes.fromhex("1603010200010001fc0303") + b"\0" * 100),
    ):
        wire.raw(case, data)


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
