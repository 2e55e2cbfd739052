"""Metrics: what the broker counts, the table of every metric, and Prometheus' text format."""
