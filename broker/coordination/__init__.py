"""Coordinators: what groups and transactions share, with a room for each."""
