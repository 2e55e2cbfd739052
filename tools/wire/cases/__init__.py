"""What is asked of a broker, by subject. Each module's `run(wire)` leaves its exchanges on the wire."""
