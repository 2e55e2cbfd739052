"""The compiled kernel: the loops over records in C, and the door that says which way runs."""
