"""The JVM of a session in tests, and its Python workers: what makes them start soon.

Most of a start is that the JVM loads, checks and compiles the classes of Spark. It keeps what it has loaded in an
archive (class data sharing), which the first test that starts a session makes, in `.cache/spark-jvm` of this clone.
Later JVMs map the archive: from the start to the end of a first query they take 6 s of CPU instead of 14 (Java 17,
PySpark 4.3.0, 2026-11-22). A JVM that the archive does not fit does without it.

Where SPARK_HOME has its archive of PySpark's sources, Python workers import those, and each worker compiles them again:
0.65 of the 0.85 s of CPU that its start takes. So sessions in tests have a SPARK_HOME without the archive.

    python -m odradek.tests.support.spark.spark_jvm FILE      makes an archive
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / ".cache" / "spark-jvm"
# Tests end before the second compiler or a parallel collector would pay.
OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
# A bound that only a hanging JVM meets: it starts slowly on a machine with much other work.
MADE_WITHIN_S = 600


def java_options() -> str:
    """Return the options of a session's JVM, with the archive of its classes."""
    return " ".join([*OPTIONS, f"-XX:SharedArchiveFile={archive()}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"])


def environment() -> dict[str, str]:
    """Return what makes the sessions of programs start so that know nothing of tests."""
    return {"SPARK_HOME": str(home()), "SPARK_SUBMIT_OPTS": java_options()}


@cache
def archive() -> Path:
    """Return the archive for this PySpark and this Java; the first process makes it while others wait."""
    found = home() / "classes.jsa"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            part = found.with_suffix(".part")
            command = [sys.executable, "-m", "odradek.tests.support.spark.spark_jvm", str(part)]
            # It fails where its JVM was killed: half an archive would crash every JVM that maps it.
            subprocess.run(command, check=True, capture_output=True, timeout=MADE_WITHIN_S)
            part.touch()  # a JVM of another make has written none; an empty one is passed over
            part.replace(found)
    return found


@cache
def home() -> Path:
    """Return a SPARK_HOME for this PySpark and this Java: links to its programs and its jars."""
    import pyspark

    said = subprocess.run([_java(), "-version"], capture_output=True, check=True).stderr
    about = f"{pyspark.__version__} {pyspark.__file__}".encode() + said
    found, installed = FOLDER / hashlib.sha256(about).hexdigest()[:16], Path(pyspark.__file__).parent
    found.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        with suppress(FileExistsError):
            (found / name).symlink_to(installed / name)
    return found


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def make(part: Path) -> int:
    """Run a batch and a stream, so that their classes are loaded, and return the status of the JVM.

    The JVM writes the archive when it ends, and it ends with its standard input.
    """
    from odradek.tests.support.spark.spark_topics import JVM, session

    with tempfile.TemporaryDirectory(prefix="odradek-spark-jvm-") as folder:
        spark = session(folder, **{JVM: " ".join([*OPTIONS, f"-XX:ArchiveClassesAtExit={part}"])})
        spark.range(10).selectExpr("sum(id)").collect()
        stream = spark.readStream.format("rate").load().writeStream.format("noop").trigger(once=True)
        stream.option("checkpointLocation", str(Path(folder, "checkpoint"))).start().awaitTermination()
        jvm = spark.sparkContext._gateway.proc
        spark.stop()
        jvm.stdin.close()
        return jvm.wait()


if __name__ == "__main__":
    os._exit(make(Path(sys.argv[1])))  # Spark's own end would ask the JVM, which has gone
