"""The C library's allocator, set so that the buffers of large requests and responses stay with the process.

glibc gives memory above its thresholds (128 KiB at first) back to the system at once. A buffer of 1 MiB then takes 256
page faults each time it is made again: up to 45 a MB fetched, and a tenth of the CPU time. With these thresholds there
is none, and up to `KEPT_BYTES` of free memory stay with the process.
"""

from __future__ import annotations

from ...storage.system_calls import c_function

# Free memory at the end of the heap that is not given back.
KEPT_BYTES = 16 * 1024 * 1024
# A larger buffer has pages of its own, which go back when it is freed. No buffer of a response is larger than 1 MiB.
OWN_PAGES_BYTES = 4 * 1024 * 1024

# Numbers of mallopt(3).
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3


def keep_freed_memory() -> bool:
    """Set the thresholds; return whether the C library has them (glibc). For a process that is only a broker."""
    mallopt = c_function("mallopt")
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_MMAP_THRESHOLD, OWN_PAGES_BYTES))
