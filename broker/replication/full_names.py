"""What a full request of the controller names: everything there is, so that what it does not name is gone.

LeaderAndIsr and UpdateMetadata can be full. One with more values than a request may have comes in pieces, one behind
the other. Where a piece is missing, the others say what is there and not what is gone: the controller sends all again.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

# Types of the pieces. Kafka has none: its brokers take a type that they do not know for a request that is not full.
BEGINS, GOES_ON, ENDS = 11, 12, 13

T = TypeVar("T")


class FullNames(Generic[T]):
    """Gathers the names of one kind of request."""

    def __init__(self, full: int) -> None:
        """`full` is the type of a request that is full by itself."""
        self._full = full
        # None: no first piece, or one behind it is missing.
        self._gathered: set[T] | None = None
        # Whether a full request has begun, and none has been carried out to its end since.
        self.is_partial = False

    def take(self, kind: int, names: set[T]) -> set[T] | None:
        """Note the names of a request of this type. Return all names where it completes a full one."""
        gathered, self._gathered = self._gathered, None
        whole: set[T] | None = None
        if kind == self._full:
            whole = names
        elif kind == BEGINS:
            self._gathered = names
        elif gathered is not None and kind == GOES_ON:
            self._gathered = gathered | names
        elif gathered is not None and kind == ENDS:
            whole = gathered | names
        self.is_partial = whole is None and (self.is_partial or kind in (BEGINS, GOES_ON, ENDS))
        return whole

    @contextmanager
    def losing(self) -> Generator[None]:
        """Forget the pieces where a request is not carried out, because of an error."""
        was_partial = self.is_partial
        try:
            yield
        except BaseException:
            self._gathered = None
            self.is_partial |= was_partial
            raise
