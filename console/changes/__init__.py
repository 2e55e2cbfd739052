"""Changes: from the fields of a form to a change with its preview and its command line, one module per subject."""
