"""Quotas: how much of this broker users, client ids and addresses may use, and how long one waits that is over it."""
