"""Small files that only their owner can read: profiles, and what `--secure` makes."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import CliError


def write_private(path: Path, text: str) -> None:
    """Replace a file, or make it: also after a power cut it is whole or as it was. Raises CliError."""
    # Every command looks for profiles, and few write any.
    from ..storage.errors import DiskError
    from ..storage.files import DISK

    # Another command may write at the same time.
    new = path.with_name(f"{path.name}.new-{os.getpid()}")
    try:
        DISK.write_atomically(new, text.encode(), private=True)
        DISK.rename(new, path)
    except DiskError as error:
        raise CliError(f"{path} cannot be written: {error.why}") from error
