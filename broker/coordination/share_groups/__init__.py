"""Share groups of KIP-932: the pure machine whose members share partitions, and the work around it."""
