"""Formats of schemas: what parses, what its canonical text is, and which versions can read each other's data."""
