"""The flights of each carrier in a topic, and how late they left: one job over all that is there.

    python pipelines/carriers.py --bootstrap 127.0.0.1:9092 --topic flights

Flights are JSON in the topic. A record that is no flight ends the job.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, functions

# What a flight has that this job reads; the topic's records have more.
FLIGHT = "carrier STRING, flight INT, dep_delay INT"


def options(bootstrap: str, topic: str) -> dict[str, str]:
    """Return the options of a source of flights, for `read` and `readStream`."""
    typed = {"valueFormat": "json", "valueSchema": FLIGHT, "mode": "FAILFAST"}
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"} | typed


def by_carrier(flown: DataFrame) -> DataFrame:
    """Return the flights, the departed ones, the sum of their delays in minutes, and that of the flight numbers."""
    return (
        flown.select("value.*")
        .groupBy("carrier")
        .agg(
            functions.count("*").alias("flights"),
            functions.count("dep_delay").alias("departed"),
            functions.sum("dep_delay").alias("minutes"),
            functions.sum("flight").alias("numbers"),
        )
    )


def main(arguments: Sequence[str]) -> None:
    """Print a row for each carrier."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="flights")
    given = parser.parse_args(arguments)
    spark = SparkSession.builder.master("local[2]").appName("carriers").getOrCreate()
    flown = spark.read.format("odradek").options(**options(given.bootstrap, given.topic)).load()
    by_carrier(flown).orderBy("carrier").show()


if __name__ == "__main__":
    main(sys.argv[1:])
