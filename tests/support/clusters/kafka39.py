"""Apache Kafka 3.9.1 in ZooKeeper mode as a process (KAFKA39_LIB): a reference, and a member of clusters."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess, free_port

READY_WITHIN_S = 90.0
LOG4J = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={path}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %c{{1}}: %m%n
"""


class Kafka39Process(BrokerProcess):
    """One broker. Settings are Kafka's names with underscores."""

    def __init__(self, folder: Path, **settings: object) -> None:
        super().__init__(folder, **settings)
        self.java_options: list[str] = []
        self.address = f"127.0.0.1:{free_port()}"

    def command(self) -> list[str]:
        path = self.folder / "server.properties"
        lines = {
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": self.data_dir,
            "num.network.threads": 2,
            "num.io.threads": 4,
            "log.cleaner.dedupe.buffer.size": 2_000_000,
        } | {name.replace("_", "."): value for name, value in self.settings.items()}
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        log4j = self.folder / "log4j.properties"
        log4j.write_text(LOG4J.format(path=self.folder / "kafka.log"))
        jars, options = f"{os.environ['KAFKA39_LIB']}/*", ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [
            "java",
            *options,
            *self.java_options,
            f"-Dlog4j.configuration=file:{log4j}",
            "-cp",
            jars,
            "kafka.Kafka",
            str(path),
        ]

    def wait_until_ready(self, process: subprocess.Popen[str], lines: Lines) -> str:
        """Wait until a client is told of this broker."""
        import confluent_kafka.admin

        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                found = admin.list_topics(timeout=1).brokers.values()
                if f"127.0.0.1:{self.address.rpartition(':')[2]}" in {f"{each.host}:{each.port}" for each in found}:
                    return self.address
            except confluent_kafka.KafkaException:
                assert process.poll() is None, f"Kafka ended; {self.last_words()}"
            assert time.monotonic() < deadline, "Kafka is not ready"

    def stop(self) -> None:
        assert self.signal(15) in (0, 143)
