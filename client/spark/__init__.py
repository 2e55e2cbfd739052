"""The PySpark data source `odradek`, for any Kafka.

    source   what Spark calls               options, columns, offsets   the options and schema of users, checked
    plan     driver: options -> ranges      brokers, connection         blocking requests to brokers
    fetch    task: a range -> batches       decoder, kernels, memory    batches -> Arrow, in numba

Heavy packages load late: `source` imports pyspark; `decoder` imports numba and pyarrow, in tasks only.
"""
