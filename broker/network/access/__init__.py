"""Access: what each API requires of its client, and what a denial looks like in its response."""
