"""The way to a Kafka cluster: connections, metadata, coordinators, and requests that are retried.

Importing this package loads nothing: Spark's tasks use some of its modules without an event loop.
"""
