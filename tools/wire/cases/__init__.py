"""The requests for a broker, by subject. Each module's `run(wire)` adds its exchanges to the wire."""
