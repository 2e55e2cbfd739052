"""Every message that is spoken, one module per API, named as its handler."""
