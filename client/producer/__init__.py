"""The producer: records are gathered in batches per partition and sent to the partitions' leaders."""

from __future__ import annotations

from .producer import Producer

__all__ = ["Producer"]
