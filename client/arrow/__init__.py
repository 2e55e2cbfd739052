"""Topics as Arrow columns, read in one thread and without an event loop: what SQL, `read_topic` and Spark share.

connection   blocking requests to one broker     brokers       those of a cluster: leaders, offsets, sizes
fetch        a range of offsets -> sections      direct_read   the same, from the broker's files
batches      bytes -> a table of batches         columns       records -> columns, compiled or in Python
decoder      sections, a range -> Arrow batches  tables        what polls return
read_options    options from texts
"""
