"""The APIs whose messages are declared."""

from __future__ import annotations

from odradek.protocol.apis import ApiKey, request_class

DECLARED = tuple(key for key in ApiKey if request_class(key) is not None)
