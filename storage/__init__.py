"""Logs on disk: segments, indexes, recovery and compaction, as plain synchronous functions on files."""
