"""The consumer of share groups (KIP-932): members take records, not partitions, and say what became of each."""

from __future__ import annotations

from .share_consumer import ShareConsumer

__all__ = ["ShareConsumer"]
