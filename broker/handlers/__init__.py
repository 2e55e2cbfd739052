"""Handlers: one module per API that does something of its own, named as the API."""
