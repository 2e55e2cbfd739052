"""Background tasks: retention, the cleaner, the scrubber, the expiry of producers."""
