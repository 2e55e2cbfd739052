"""Views: one module per subject, each with the functions that answer its pages. They read, and change nothing."""
