"""Classic groups: the pure machine whose members join a generation and are handed their assignment by a leader."""
