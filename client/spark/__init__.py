"""The PySpark data source `odradek`. A client like any other: it meets brokers on the wire alone.

    source     what Spark calls          options, columns, offsets     what users write, checked
    plan       driver: options -> ranges  brokers, wire                 blocking questions to brokers
    fetch      task: a range -> batches   decoder, kernels, memory      batches -> Arrow, in numba

Nothing here is imported before it runs: pyspark by `source`, numba and pyarrow by `decoder`, in tasks only.
"""
