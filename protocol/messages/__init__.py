"""Messages: one module per API, with the same name as its handler."""
