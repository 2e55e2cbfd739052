"""What people may write into znodes that the controller reads."""

from __future__ import annotations

NONSENSE = (
    b"",
    b"{",
    b"[]",
    b'{"version":1,"partitions":3}',
    b'{"version":1,"partitions":[{"topic":"t1"}]}',
    b'{"version":1,"partitions":[7]}',
    b'{"version":1,"partitions":{"0":[]}}',
    b'{"version":1,"partitions":{"zero":[1]},"adding_replicas":7}',
)
