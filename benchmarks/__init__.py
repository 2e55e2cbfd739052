"""Benchmarks: commands that print figures. `python -m benchmarks` compares with Apache Kafka if its jars are there."""
