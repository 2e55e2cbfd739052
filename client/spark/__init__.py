"""The PySpark data source `odradek`, for any Kafka.

    source   what Spark calls               options, columns, offsets   the options and schema of users, checked
    plan     driver: options -> ranges      brokers, connection         blocking requests to brokers
    fetch    task: a range -> batches       rows                        batches -> Arrow, typed
    sink     task: rows -> records          ../arrow                    the decoder and the encoder, no Spark in them

Heavy packages load late: `source` imports pyspark; `rows` imports pyarrow, in tasks only.
"""
