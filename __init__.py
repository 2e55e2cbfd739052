"""Odradek: a Kafka broker, client and PySpark source in Python. Kept light: Spark executors import it."""

from __future__ import annotations

__version__ = "0.1.0"
