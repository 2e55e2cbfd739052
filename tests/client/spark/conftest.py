"""A session of Spark for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from odradek.tests.support.clients.java import require_spark_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    require_spark_java()
    from odradek.tests.support.spark.spark_topics import session

    started = session(str(tmp_path_factory.mktemp("spark")))
    yield started
    started.stop()
