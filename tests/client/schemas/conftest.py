"""A broker in a thread, and a registry over it in the test's own loop."""

from __future__ import annotations

from odradek.tests.registry.conftest import ask, broker, registry

__all__ = ["ask", "broker", "registry"]
