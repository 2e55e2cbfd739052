"""What the demos share: the broker, the flights, the sums that must agree, Spark, what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flights import COUNT, ByCarrier, carrier_names, flights, record
from odradek.client import Consumer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

TOPIC = "flights"
PARTITIONS = 6
STOPS_WITHIN_S = 10
# The members of a group hear of each other at their heartbeats. (Kafka's default is 5 s.)
HEARTBEAT_INTERVAL_MS = 300

console = Console()

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DemoFailed(Exception):
    """A count, a sum or a status is not what it should be."""


class DemoBroker:
    """`odradek serve` on a free port. The end of the block checks that it stops well."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "broker.log"
        self.address = ""

    def __enter__(self) -> DemoBroker:
        """Return when clients can connect. Raises DemoFailed."""
        began = time.monotonic()
        command = [sys.executable, "-m", "odradek.broker", "serve"]
        command += ["--listen", "127.0.0.1:0", "--data-dir", str(self._folder / "data")]
        for name in ("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"):
            command += ["--set", f"{name}={HEARTBEAT_INTERVAL_MS}"]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        word, _, self.address = self._process.stdout.readline().strip().partition(" ")
        if word != "ready":
            self._process.wait()
            raise DemoFailed(f"the broker did not start: {self._last_words()}")
        console.print(f"broker ready on {self.address} after {time.monotonic() - began:.2f} s")
        return self

    def __exit__(self, *_: object) -> None:
        if (status := stop(self._process, STOPS_WITHIN_S)) != 0:
            raise DemoFailed(f"the broker ended with status {status}: {self._last_words()}")

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-1000:]


def stop(process: subprocess.Popen[str], within_s: float) -> int:
    """Stop a process, or kill it where it does not stop in time, and return its status."""
    process.terminate()
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        if process.stdout is not None:
            process.stdout.close()


def check(what: str, got: ByCarrier, truth: ByCarrier) -> None:
    """Compare flights, cancellations, minutes and flight numbers of every carrier. Raises DemoFailed."""
    for carrier in sorted(truth.carriers.keys() | got.carriers.keys()):
        if got.carriers.get(carrier) != truth.carriers.get(carrier):
            wanted, found = truth.carriers.get(carrier), got.carriers.get(carrier)
            raise DemoFailed(f"{what}: carrier {carrier} has {found}, the data {wanted}")
    if got.flights != COUNT:
        raise DemoFailed(f"{what}: {got.flights:,} flights instead of {COUNT:,}")
    console.print(f"[green]✓[/] {what}: {got.flights:,} flights of {len(got.carriers)} carriers, all sums equal")


def progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def read_flights(bars: Progress) -> tuple[ByCarrier, list[tuple[bytes, bytes]]]:
    """Return the sums to compare with, and the records to send."""
    task = bars.add_task("read", total=COUNT)
    truth, records = ByCarrier(), list[tuple[bytes, bytes]]()
    for number, flight in enumerate(flights(), 1):
        truth.add(flight)
        records.append(record(flight))
        if not number % 5000:
            bars.update(task, completed=number)
    bars.update(task, completed=len(records))
    if len(records) != COUNT:
        raise DemoFailed(f"the data has {len(records):,} flights instead of {COUNT:,}")
    return truth, records


def member_of_group(address: str) -> Consumer:
    return Consumer(TOPIC, bootstrap_servers=address, group_id="delays", auto_offset_reset="earliest")


# -- Spark


def java_is_there() -> bool:
    return subprocess.run([Path(__file__).with_name("need_java.sh"), "--check"], check=False).returncode == 0


def start_spark(folder: Path) -> SparkSession:
    """Start a session."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_HOME", str(_spark_home(folder)))
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .appName("flights")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def _spark_home(folder: Path) -> Path:
    """Return a SPARK_HOME of links to PySpark's programs and jars alone.

    From a SPARK_HOME with PySpark's sources in an archive, each Python worker imports those and compiles them again:
    0.65 s of CPU of the 0.85 that its start takes.
    """
    import pyspark

    home = folder / "spark"
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).with_name(name))
    return home


def sums_of(rows: Iterable[Any]) -> ByCarrier:
    """Return the sums of rows of pipelines/carriers.py, of which a carrier may have several."""
    sums = ByCarrier()
    for row in rows:
        each = sums.carriers[row.carrier]
        each.flights += row.flights
        each.departed += row.departed
        each.delay_minutes += row.minutes or 0
        each.numbers += row.numbers
    return sums


@contextmanager
def quiet_jvm(log: Path) -> Iterator[None]:
    """Send descriptor 2 to a file, because Spark's JVM writes warnings past Python. Show the file after a failure."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    except BaseException:
        os.dup2(kept, 2)
        print(log.read_text(errors="replace")[-4000:], file=sys.stderr)
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def delays(sums: ByCarrier) -> Table:
    """Return the delays by carrier, the least punctual first."""
    table = Table(title="Departure delays by carrier, New York 2013")
    table.add_column("carrier")
    for title in ("flights", "cancelled", "mean delay (min)"):
        table.add_column(title, justify="right")
    names = carrier_names()
    for code, each in sorted(sums.carriers.items(), key=lambda item: -item[1].mean_delay_minutes):
        cancelled = each.flights - each.departed
        name = f"{code}  {names.get(code, '')}"
        table.add_row(name, f"{each.flights:,}", f"{cancelled:,}", f"{each.mean_delay_minutes:.1f}")
    return table
