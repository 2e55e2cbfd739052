"""A data directory whose disk is not there: an unmounted disk, or a directory that log.dirs no longer names.

Its mount point is an empty directory. If the broker took it for a new one, the partitions of the missing disk would
begin again, empty. The metadata journal knows the id (`directory.id` in meta.properties) and path of each data
directory, and which partitions exist. So a start is refused where partitions are in no directory and a known directory
is not there. Kafka refuses every directory without meta.properties.

A disk that is lost for good gets an empty directory with a copy of another directory's meta.properties. The copied id
shows that an operator put it there; the start then gives the directory an id of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ...storage.checkpoints import META_PROPERTIES
from .data_dir import StartError

# A message names so many partitions.
_SHOWN = 3


def refuse_missing_disk(
    missing: list[str], known: Mapping[str, str], present: Iterable[str], replaced: Iterable[Path], new: list[Path]
) -> None:
    """Raise StartError where `missing` partitions, which are in no directory, must be on a disk that is not there.

    `known` maps directory ids to paths as the journal has them, empty in a journal of an earlier version. `present` are
    the ids of the directories that were opened, `replaced` those that an operator put in the place of lost ones, `new`
    those without meta.properties. A crash while a topic is created also leaves missing partitions, so these alone are
    no reason.
    """
    if not missing:
        return
    gone = {str(path) for path in replaced}
    absent = [Path(path) for known_id, path in known.items() if known_id not in set(present) and path not in gone]
    suspects = absent if known else new
    if not suspects:
        return
    shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
    why = f"{len(missing)} partitions ({shown}) are in none of log.dirs, and the disk of {suspects[0]} is not there"
    how = f"if it is lost for good, copy {META_PROPERTIES} of another data directory into an empty {suspects[0]}"
    raise StartError(f"{why}: mount it, or name it in log.dirs; {how}, and these partitions start empty")


def is_new(path: Path) -> bool:
    """Return whether a directory is missing, or has no meta.properties; False where it cannot be read."""
    try:
        return META_PROPERTIES not in {each.name for each in path.iterdir()}
    except FileNotFoundError:
        return True
    except OSError:
        return False
