"""The consumer: fetching ahead, positions, committed offsets and membership in a consumer group."""

from __future__ import annotations

from .consumer import Consumer

__all__ = ["Consumer"]
