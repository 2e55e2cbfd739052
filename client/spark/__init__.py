"""The PySpark data source `odradek`, for any Kafka.

    source   what Spark calls               options, option_texts, columns   the options and schema of users, checked
    stream   driver: the batches of a stream, and their limits
    plan     driver: options -> ranges      rows                        task: a range -> Arrow batches, typed
    sink     task: rows -> records          ../arrow                    reads topics; no Spark in it
    table_sink   rows -> tables of Iceberg, the format `odradek-archive`
    archiving   archives by Spark, and a topic with its archive as one DataFrame

Heavy packages load late: `source` imports pyspark; `rows` imports pyarrow, in tasks only.

    from odradek.client.spark import archive, table
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import lazily

if TYPE_CHECKING:
    from .archiving import archive, table

__all__ = ["archive", "table"]

__getattr__, __dir__ = lazily(__name__, {"archiving": "archive table"})
