"""Data directories: their locks, identity, checkpoints and the directories of partitions."""
