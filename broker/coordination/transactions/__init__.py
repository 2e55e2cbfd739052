"""The transaction coordinator: the pure machine of a transactional id, and its work around it."""
