"""Shapes: where the requests of each API keep their items, and where its responses keep results, names and errors."""
