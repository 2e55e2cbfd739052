"""Benchmarks: commands that print figures, never tests. `python -m benchmarks` measures beside a real Kafka where its
jars are."""
