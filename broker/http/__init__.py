"""The HTTP endpoint: whether the broker lives, whether it is ready, and its metrics for Prometheus."""
