"""A topic kept as a table of Apache Iceberg by Spark: its tasks write the files, the driver commits them once.

    spark-submit pipelines/archive.py --topic flights --to /data/archive
    spark-submit pipelines/archive.py --topic flights --to iceberg://lake --table air.flights --every 60
    spark-submit pipelines/archive.py --to /data/archive --value-format json --fields "carrier string, dep_delay int"

There is no checkpoint: the offsets are in the table, in the commit of the files. So it may be killed at any time, and
run beside `odradek archive run`. Without `--every` it archives what there is, and ends.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence

from odradek.client.archive import Archive
from odradek.client.spark import archive
from pyspark.sql import SparkSession


def main(arguments: Sequence[str]) -> None:
    """Archive once, or until SIGTERM."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--to", required=True, help="a directory, an object store, or iceberg://CATALOG")
    parser.add_argument("--catalog-db", help="the catalog's file, for an object store")
    parser.add_argument("--table", help="with its namespace; odradek.TOPIC without it")
    parser.add_argument("--every", type=float, help="seconds from a commit to the next")
    parser.add_argument("--path", default="fetch", help="auto: from the broker's files, where tasks can read them")
    parser.add_argument("--value-format", choices=("json", "avro", "json-schema"), help="values have types, too")
    parser.add_argument("--fields", help="the fields of JSON values")
    parser.add_argument("--registry", help="the URL of the schema registry, for avro and json-schema")
    parser.add_argument("--bad", default="keep", choices=("keep", "fail", "skip"), help="a value that does not fit")
    given = parser.parse_args(arguments)
    stopped = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    spark = SparkSession.builder.appName(f"archive of {given.topic}").getOrCreate()
    place = Archive(given.to, given.catalog_db, given.table)
    options = {"kafka.bootstrap.servers": given.bootstrap, "path": given.path}
    try:
        done = archive(
            spark, given.topic, place, every_s=given.every, stopped=stopped, value_format=given.value_format,
            fields=given.fields, registry=given.registry, bad=given.bad, **options,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGTERM, before)
    print(f"{given.topic}: {done.rows} rows in {done.files} files, {done.lag} offsets left")


if __name__ == "__main__":
    main(sys.argv[1:])
