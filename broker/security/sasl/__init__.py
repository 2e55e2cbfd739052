"""SASL: the mechanisms by which clients log in, as pure machines, and what they are on one listener."""
