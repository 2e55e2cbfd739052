"""The door: which requests come in, who sends them, and the files that every page loads."""
