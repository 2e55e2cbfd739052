"""The admin client: topics, configs, groups, transactions and log directories of a cluster."""

from __future__ import annotations

from .admin import Admin

__all__ = ["Admin"]
