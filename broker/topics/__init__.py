"""Topics and partitions: how they come and go, what is appended and read."""
