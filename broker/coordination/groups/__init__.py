"""The group coordinator: the pure machine of the classic protocol, and its work around it."""
