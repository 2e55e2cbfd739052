"""The PySpark data source `odradek`, for any Kafka.

    source   what Spark calls               options, option_texts, columns   the options and schema of users, checked
    plan     driver: options -> ranges      rows                        task: a range -> Arrow batches, typed
    sink     task: rows -> records          ../arrow                    reads topics; no Spark in it

Heavy packages load late: `source` imports pyspark; `rows` imports pyarrow, in tasks only.
"""
