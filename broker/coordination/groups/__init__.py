"""The group coordinator: what groups of every kind share, from requests and committed offsets to the log."""
