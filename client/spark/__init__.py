"""The PySpark data source `odradek`, for any Kafka.

    source   what Spark calls               options, columns, offsets   the options and schema of users, checked
    plan     driver: options -> ranges      brokers, connection         blocking requests to brokers
    fetch    task: a range -> batches       decoder, kernels            batches -> Arrow
    sink     task: rows -> records          machine_code, compilation   kernels, compiled by numba once on a host

Heavy packages load late: `source` imports pyspark; `decoder` imports pyarrow, in tasks only; compiling imports numba.
"""
