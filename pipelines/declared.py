"""A Declarative Pipeline of Spark: flights of a topic as a table, their sums, a topic of late ones, and an archive.

    pip install 'odradek[spark,archive]' 'pyspark[pipelines]'
    spark-pipelines --conf spark.sql.catalogImplementation=hive run --spec pipelines/spark-pipeline.yml

Each run reads what is new since the last one, and ends. Its checkpoints are in the `storage` of the spec, and
`spark.flights.` in its configuration says where the brokers and the archive are.
"""

from __future__ import annotations

from odradek.pipelines.carriers import by_carrier, options
from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

SERVERS = "kafka.bootstrap.servers"
# Minutes of delay at the departure.
LATE = 60

spark = SparkSession.active()
bootstrap, archive = (str(spark.conf.get(f"spark.flights.{name}")) for name in ("bootstrap", "archive"))


@pipelines.table
def flights() -> DataFrame:
    """All flights of the topic, as they come."""
    return spark.readStream.format("odradek").options(**options(bootstrap, "flights")).load()


@pipelines.materialized_view
def carriers() -> DataFrame:
    """The sums of each carrier, over all flights so far."""
    return by_carrier(spark.read.table("flights"))


pipelines.create_sink("late", "odradek", {SERVERS: bootstrap, "topic": "late", "valueFormat": "json"})


@pipelines.append_flow(target="late")
def late_flights() -> DataFrame:
    """Write flights that left late to a topic, each once."""
    return spark.readStream.table("flights").where(f"value.dep_delay >= {LATE}").select("key", "value")


pipelines.create_sink("archived", "odradek-archive", {"to": archive, "table": "air.flights"})


@pipelines.append_flow(target="archived")
def archived_flights() -> DataFrame:
    """Keep all flights in a table of Iceberg, each once."""
    return spark.readStream.table("flights").select("offset", "partition", "timestamp", "value.*")
