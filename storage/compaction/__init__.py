"""Compaction: which segments to clean, the map of keys, and the process that writes the segments again."""
