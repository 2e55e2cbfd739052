"""Configs: one table of what can be set, its values, and the answers of DescribeConfigs."""
