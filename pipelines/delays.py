"""The delays of flights by carrier, in windows of event time, as a stream that waits for late records.

    python pipelines/delays.py --bootstrap 127.0.0.1:9092 --topic flights --window "1 day" --late "6 hours"
    python pipelines/delays.py --to delays --checkpoint /data/delays

Flights are JSON in the topic. A window's row comes once, when the watermark has passed its end: `late` after the latest
flight that was seen. A flight that comes later than that is dropped, and Spark counts it (numRowsDroppedByWatermark).
With a checkpoint, a stopped query goes on where it was, its open windows included.

Windows are printed, or written to a topic exactly once, whatever is killed meanwhile. Their key is carrier and start: a
compacted topic keeps one row of each window.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming import DataStreamWriter

# What a flight has that this pipeline reads; the topic's records have more.
FLIGHT = "carrier STRING, flight INT, dep_delay INT, time_hour TIMESTAMP"


def flights(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """Return the stream of flights of a topic, from its beginning. A record that is no flight is left out."""
    reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    typed = reader.option("valueFormat", "json").option("valueSchema", FLIGHT).option("mode", "DROPMALFORMED")
    return typed.option("startingOffsets", "earliest").options(**options).load().select("value.*")


def delays(flown: DataFrame, window: str = "1 day", late: str = "6 hours") -> DataFrame:
    """Return the flights, the departed ones and the mean delay in minutes, by carrier and window of the schedule."""
    windows = flown.withWatermark("time_hour", late).groupBy(functions.window("time_hour", window), "carrier")
    sums = windows.agg(
        functions.count("*").alias("flights"),
        functions.count("dep_delay").alias("departed"),
        functions.avg("dep_delay").alias("mean_delay"),
    )
    return sums.select("window.start", "carrier", "flights", "departed", "mean_delay")


def to_topic(frame: DataFrame, bootstrap: str, topic: str, checkpoint: str) -> DataStreamWriter:
    """Return the writer of delays to a topic of an Odradek broker: JSON, by carrier and start of the window."""
    rows = frame.select(
        functions.format_string("%s %s", "carrier", "start").alias("key"), functions.struct("*").alias("value")
    )
    writer = rows.writeStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    return (
        writer.option("valueFormat", "json")
        .option("transactional", "required")
        .option("checkpointLocation", checkpoint)
    )


def main(arguments: Sequence[str]) -> None:
    """Print windows as they close, or write them to a topic, until Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--window", default="1 day")
    parser.add_argument("--late", default="6 hours")
    parser.add_argument("--checkpoint", help="a folder; without one a restart begins at the beginning")
    parser.add_argument("--to", metavar="TOPIC", help="write to this topic; needs --checkpoint")
    given = parser.parse_args(arguments)
    if given.to is not None and given.checkpoint is None:
        parser.error("--to needs --checkpoint: without it a restart would write every window again")
    spark = SparkSession.builder.master("local[2]").appName("delays").getOrCreate()
    frame = delays(flights(spark, given.bootstrap, given.topic), given.window, given.late)
    if given.to is not None:
        writer = to_topic(frame, given.bootstrap, given.to, given.checkpoint)
    else:
        writer = frame.writeStream.format("console").outputMode("append")
        if given.checkpoint is not None:
            writer = writer.option("checkpointLocation", given.checkpoint)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1:])
