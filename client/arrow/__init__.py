"""Topics as Arrow columns, read in one thread and without an event loop, by what SQL, `read_topic` and Spark share.

    connection     blocking requests to one broker     brokers     those of a cluster: leaders, offsets, sizes
    fetch          a range of offsets -> sections      direct_read the same, from the broker's files
    batches        bytes -> a table of batches         decoder     tables of batches -> Arrow batches
    encoder        Arrow columns -> record batches     tables      what polls return

The compiled kernel does the work where it was built (`odradek.kernel.door`). Otherwise `python_columns` fills the same
columns, and rows are encoded by the producer, one by one. The tests compare the two.
"""
