"""Record batches as Arrow columns and back, in one thread and without an event loop.

    batches    bytes -> a table of batches        decoder   tables of batches -> Arrow batches
    encoder    Arrow columns -> record batches    tables    what polls and `read_topic` return

The compiled kernel does the work where it was built (`odradek.kernel.door`). Otherwise `python_columns` fills the same
columns, and rows are encoded by the producer, one by one. The tests compare the two.
"""
