"""Replication: which partitions this broker leads and which it follows, in a cluster of several brokers."""
