"""Segments: the files of a log with their indexes, damage in them, and how one replaces another."""
