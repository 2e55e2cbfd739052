"""Transactions of a producer (KIP-98, KIP-447, KIP-890): a pure machine, its requests, and the task that sends them."""
