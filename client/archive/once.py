"""A catalog that commits once: the same request again and again, until its fate is certain.

pyiceberg takes an answer "conflict" for one that allows another attempt, and appends the same files to the new head:
two archivers wrote every row twice so, without an error. Without its retries it takes a conflict for a commit that was
not applied, and deletes its manifests, though an answer may have been lost before. A request names its snapshot and the
head that it needs, so the table itself tells what became of it:

    the snapshot is there                       it was applied
    the head is still the one it needs          it may be sent again
    the head is another one                     it can never be applied any more: Moved
    the catalog does not say within the time    CommitUncertain; what was written stays, and the next run decides

A look at a table waits for a catalog that does not answer, for the same time.

Promise: no data file and no manifest is deleted here, whatever the answers are.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, OAuthError, RESTError, UnauthorizedError
from pyiceberg.table import CommitTableResponse, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId
from sqlalchemy.exc import OperationalError

from ..errors import ClientError
from . import ArchiveError

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 60.0
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 2.0
T = TypeVar("T")
# Errors of a catalog that may pass, and those among them that will not.
_WAITED_FOR = (OSError, RESTError, OperationalError)
_DEFINITE = (
    FileNotFoundError, PermissionError, NotADirectoryError,
    BadRequestError, UnauthorizedError, ForbiddenError, OAuthError,
)  # fmt: skip


class Stopped(ArchiveError):
    """An archiver is to end, and does not wait any longer. What makes pauses raises it."""


class Moved(ClientError, retriable=True):
    """Another commit came first. It is no error of pyiceberg's: for those it would delete files."""


class CommitUncertain(ArchiveError):
    """The catalog does not say what became of a commit. The files stay, and the next run reads it from the table."""


def looked(
    look: Callable[[], T],
    timeout_s: float = COMMIT_TIMEOUT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Return what a look at a catalog returns; look again where it does not answer. Raises what the last one raised."""
    deadline, pause = clock() + timeout_s, _FIRST_PAUSE_S
    while True:
        try:
            return look()
        except _WAITED_FOR as error:
            if isinstance(error, _DEFINITE) or clock() + pause > deadline:
                raise
            why = next(iter(str(error).splitlines()), "")
            log.warning("the catalog does not answer, and is asked again: %s: %s", type(error).__name__, why)
        sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE_S)


class Once:
    """A catalog in the place of `table.catalog`, for the one commit of a transaction."""

    def __init__(
        self,
        catalog: Catalog,
        timeout_s: float = COMMIT_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._catalog = catalog
        self._timeout_s, self._clock, self._sleep = timeout_s, clock, sleep
        # Answers that left the fate of a commit open.
        self.uncertain = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    @contextmanager
    def transaction(self, table: Any) -> Generator[Transaction]:
        """Make a commit to a table as it was loaded. Raises Moved, CommitUncertain."""
        table.catalog = self
        try:
            with OnceMade(table) as made:
                yield made
        except FileNotFoundError:
            # Others may have committed so often that they expired this snapshot, with its manifests.
            loaded = looked(lambda: self._catalog.load_table(table.name()), self._timeout_s, self._clock, self._sleep)
            if loaded.metadata.current_snapshot_id == table.metadata.current_snapshot_id:
                raise
            raise Moved(f"{'.'.join(table.name())}: other commits came first") from None

    def commit_table(self, table: Any, requirements: Sequence[Any], updates: Sequence[Any]) -> CommitTableResponse:
        """Commit, and return the metadata. Raises Moved, CommitUncertain."""
        snapshot, base = _snapshot_and_base(requirements, updates)
        deadline, pause = self._clock() + self._timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                return self._catalog.commit_table(table, tuple(requirements), tuple(updates))
            except Exception as error:  # noqa: BLE001 - each client of a catalog has errors of its own
                self.uncertain += 1
                why = error
            log.info("commit of snapshot %d: %s: %s", snapshot, type(why).__name__, why)
            found = self._fate(table, snapshot, base, deadline, why)
            if found is not None:
                return found
            self._pause(pause, deadline, why)
            pause = min(2 * pause, _MAX_PAUSE_S)

    def _fate(
        self, table: Any, snapshot: int, base: int | None, deadline: float, why: Exception
    ) -> CommitTableResponse | None:
        """Return the metadata of an applied commit, None if it may be sent again. Raises Moved, CommitUncertain."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                loaded = self._catalog.load_table(table.name())
                break
            except Exception as error:  # noqa: BLE001 - as above
                log.info("looking for snapshot %d: %s: %s", snapshot, type(error).__name__, error)
            self._pause(pause, deadline, why)
            pause = min(2 * pause, _MAX_PAUSE_S)
        if loaded.metadata.table_uuid != table.metadata.table_uuid:
            raise ArchiveError(f"{'.'.join(table.name())} was dropped, and another table has its name")
        if loaded.metadata.snapshot_by_id(snapshot) is not None:
            found: dict[str, Any] = {"metadata": loaded.metadata, "metadata-location": loaded.metadata_location}
            return CommitTableResponse(**found)
        head = loaded.metadata.current_snapshot()
        if (None if head is None else head.snapshot_id) != base:
            raise Moved(f"{'.'.join(table.name())}: another commit came first")
        return None

    def _pause(self, seconds: float, deadline: float, why: Exception) -> None:
        with suppress(Stopped):
            if self._clock() + seconds <= deadline:
                self._sleep(seconds)
                return
        raise CommitUncertain(
            f"the catalog does not say whether a commit was applied ({type(why).__name__}: {why}); its files stay"
        ) from why


class OnceMade(Transaction):
    """A transaction that copies the table's metadata once a change, and not at each of 20 looks.

    A copy has every snapshot: otherwise a commit costs more with each of them.
    """

    _made: tuple[int, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata with what is staged so far."""
        if self._made is None or self._made[0] != len(self._updates):
            self._made = len(self._updates), super().table_metadata
        return self._made[1]


def _snapshot_and_base(requirements: Sequence[Any], updates: Sequence[Any]) -> tuple[int, int | None]:
    """Return the id of the snapshot that a request adds, and of the head that it needs."""
    added = [each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate)]
    needed = [each.snapshot_id for each in requirements if isinstance(each, AssertRefSnapshotId)]
    assert len(added) == 1 and len(needed) == 1, "a commit adds one snapshot to one head"
    return added[0], needed[0]
