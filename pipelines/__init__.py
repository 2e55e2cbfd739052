"""Pipelines: examples of whole jobs in Spark, each run by a test."""
