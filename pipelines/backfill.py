"""A year of flights read from the broker's files, and then the stream of new ones: one query, one checkpoint.

    python pipelines/backfill.py --topic flights --to departures --checkpoint /data/departures

Each flight that has departed becomes a row of the topic `--to`, once. First the query reads what the topic holds
(`path=direct`: from the files of the broker on this machine, in large batches), and ends. Then it starts again with the
same checkpoint, and streams. The checkpoint hands over the offsets: the stream begins where the year has ended, so no
flight is lost or doubled, also if the process dies in between. A start after that reads on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession, functions
from pyspark.sql.streaming import DataStreamWriter

FLIGHT = "carrier STRING, flight INT, origin STRING, dest STRING, dep_delay INT, time_hour TIMESTAMP"
# A batch is one transaction, which must end within 15 minutes.
ROWS_A_BATCH = 5_000_000


def departures(
    spark: SparkSession, bootstrap: str, topic: str, to: str, checkpoint: str, **options: str
) -> DataStreamWriter:
    """Return the query from the topic of flights to the topic of departures, by the route as the key."""
    reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    typed = reader.option("valueFormat", "json").option("valueSchema", FLIGHT).option("mode", "DROPMALFORMED")
    flights = typed.option("startingOffsets", "earliest").options(**options).load().select("value.*")
    flown = flights.where("dep_delay IS NOT NULL")
    rows = flown.select(functions.concat_ws("-", "origin", "dest").alias("key"), functions.struct("*").alias("value"))
    writer = rows.writeStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("topic", to)
    return (
        writer.option("valueFormat", "json")
        .option("transactional", "required")
        .option("checkpointLocation", checkpoint)
    )


def backfill(spark: SparkSession, bootstrap: str, topic: str, to: str, checkpoint: str, path: str = "direct") -> None:
    """Copy what the topic holds now, and return. Nothing is copied again."""
    limits = {"path": path, "maxOffsetsPerTrigger": str(ROWS_A_BATCH)}
    writer = departures(spark, bootstrap, topic, to, checkpoint, **limits)
    writer.trigger(availableNow=True).start().awaitTermination()


def main(arguments: Sequence[str]) -> None:
    """Copy what there is, then what comes, until Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--to", default="departures")
    parser.add_argument("--checkpoint", required=True, help="a folder, which must be kept")
    parser.add_argument("--path", default="direct", help="fetch, where the broker is on another machine")
    given = parser.parse_args(arguments)
    spark = SparkSession.builder.master("local[2]").appName("departures").getOrCreate()
    place = spark, given.bootstrap, given.topic, given.to, given.checkpoint
    backfill(*place, path=given.path)
    departures(*place).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1:])
