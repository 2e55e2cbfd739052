"""Errors of the test kit, beside those of Kafka."""

from __future__ import annotations


class Unavailable(Exception):
    """This Kafka cannot do what the test asks for."""


class NeverFired(AssertionError):
    """A fault with `must_fire=True` met no request."""
