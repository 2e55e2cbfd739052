"""Consumer groups of KIP-848: the pure machine whose members are reconciled with a target, one heartbeat at a time."""
