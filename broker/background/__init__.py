"""Background tasks: retention, the cleaner, the expiry of producers."""
