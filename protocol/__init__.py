"""Kafka's wire protocol: bytes to values and back. No asyncio, clock, files or logger in here."""
