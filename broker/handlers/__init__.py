"""Handlers: a module for each API that does something of its own, named as the API, or for APIs of one subject."""
