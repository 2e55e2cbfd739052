"""The plugin of pytest, in a project of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from odradek.testing import LocalKafka, plugin
from odradek.testing.unasked import FIXTURES, fixtures_used

from .inner_pytest import ASKED, run, run_here

PROJECT = """
import pytest

def test_one(kafka, kafka_topic):
    kafka.put(kafka_topic, ["v"])
    assert len(kafka.records(kafka_topic)) == 1

def test_no_client_of_the_kit_outlives_its_test():
    import threading

    assert "odradek-client" not in [each.name for each in threading.enumerate()]

def test_two(kafka):
    assert kafka.topics() == []

@pytest.mark.kafka(topics={"orders": 3}, config={"num.partitions": 2})
def test_marked(kafka, kafka_address):
    kafka.put("other", ["v"])
    assert kafka.topics() == ["orders", "other"]
    assert kafka.broker.config.num_partitions == 2
    assert kafka_address == kafka.address

def test_schemas(kafka, schema_registry):
    from odradek.client.blocking import Producer
    from odradek.client.schemas import Avro

    assert schema_registry.subjects() == []
    with Producer(kafka.address, value_serializer=Avro(schema_registry.url, \'"int"\')) as producer:
        producer.send_and_wait("t", 1)
    assert schema_registry.subjects() == ["t-value"]
    assert schema_registry.why_incompatible("t-value", "string") != []
    schema_registry.set_compatibility("NONE")
    assert schema_registry.register("t-value", "string") == 2
    assert [each.value for each in kafka.records("t")] == [b"\\0\\0\\0\\0\\1\\2"]
"""
FAULTY = """
from odradek.client.blocking import Consumer

def test_fails(kafka):
    kafka.put("t", ["v"])
    options = {"group_id": "g", "auto_offset_reset": "earliest", "client_id": "mine"}
    with Consumer("t", bootstrap_servers=kafka.address, **options) as consumer:
        consumer.getone()
        consumer.commit()
    assert kafka.records("t") == []

def test_must_fire(kafka):
    kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", must_fire=True)

def test_clock(kafka_clock):
    kafka_clock.advance(hours=1)
"""


NEEDS_ITS_OWN = """
def test_fails(kafka):
    kafka.fail("Fetch", "NOT_LEADER_OR_FOLLOWER")
"""


def test_the_fixtures_and_the_marker_work(tmp_path: Path) -> None:
    assert "= 5 passed" in run_here(tmp_path, PROJECT, ASKED, "--strict-markers")


def test_a_misspelt_marker_says_what_there_is(tmp_path: Path) -> None:
    said = run_here(tmp_path, "import pytest\n@pytest.mark.kafka(topic='t')\ndef test_it(kafka): pass\n", ASKED)
    assert "takes ['config', 'tls', 'topics', 'users'], not ['topic']" in said


def test_the_report_of_a_failed_test_has_the_log_and_the_requests(tmp_path: Path) -> None:
    said = run_here(tmp_path, FAULTY, ASKED, f"--junit-xml={tmp_path}/report.xml")
    assert "1 failed, 2 passed, 1 error" in said
    assert "topic t created" in said
    assert "the last requests to Kafka" in said and "Metadata v" in said and "client id 'mine'" in said
    assert "Kafka's groups" in said and "g: committed {('t', 0): 1}" in said
    assert "fail('Produce', 'NOT_LEADER_OR_FOLLOWER') never fired" in said
    report = (tmp_path / "report.xml").read_text()
    assert "the last requests to Kafka" in report and "g: committed" in report
    assert "Kafka&#x27;s log" in report or "Kafka's log" in report
    assert "topic t created" in report


FACTORY = """
import threading

SHARED = [each.name for each in threading.enumerate() if each.name == "odradek-broker"]

def test_must_fire(kafka_factory):
    for _ in range(2):
        kafka_factory().fail("Produce", "NOT_LEADER_OR_FOLLOWER", must_fire=True)

def test_all_are_closed(kafka_factory):
    assert [each.name for each in threading.enumerate() if each.name == "odradek-broker"] == SHARED

def test_a_cluster_too(kafka_cluster):
    kafka_cluster.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", must_fire=True)
"""


def test_brokers_of_a_factory_check_their_faults_and_all_of_them_end(tmp_path: Path) -> None:
    said = run_here(tmp_path, FACTORY, ASKED)
    assert "3 passed, 2 errors" in said
    assert "fail('Produce', 'NOT_LEADER_OR_FOLLOWER') never fired" in said
    assert "fail('Fetch', 'NOT_LEADER_OR_FOLLOWER') never fired" in said


CLOCK = """
import sys
import time

def test_pytest_changes_no_other_module(kafka):
    kafka.put("t", ["v"])
    import odradek.broker.server, odradek.client.blocking
    changed = [name for name, each in sys.modules.items()
               if name.startswith("odradek.") and "rewrite" in type(each.__spec__.loader).__module__]
    assert set(changed) <= {"odradek.testing", "odradek.testing.plugin"}
    assert "rewrite" in type(sys.modules[__name__].__spec__.loader).__module__

def test_moves(kafka_clock):
    kafka_clock.advance(days=30)

def test_after(kafka):
    kafka.put("t", ["v"])
    kafka.apply_retention()
    assert len(kafka.records("t")) == 1
    kafka.broker.call(later)

async def later(): ...

def test_the_time_is_real_again(kafka):
    assert abs(kafka.broker.clock.now_ms() / 1000 - time.time()) < 3600
"""


def test_a_test_that_moves_the_clock_moves_it_for_no_other(tmp_path: Path) -> None:
    assert "4 passed" in run(tmp_path, CLOCK)


DEAD = """
import pytest

def test_dies(kafka):
    async def die():
        import asyncio
        asyncio.get_running_loop().stop()
    with pytest.raises(Exception):
        kafka.broker.call(die)
    assert kafka.records("t") == []

def test_after(kafka):
    pass

def test_long_after(kafka):
    assert kafka.topics() == []
"""


def test_a_broker_that_has_died_is_named_as_the_cause(tmp_path: Path) -> None:
    said = run(tmp_path, DEAD, "-W", "ignore")
    assert "the broker has died: what follows from it is no fault of the test" in said
    assert "the broker of an earlier test has died; see that test's report" in said
    assert "1 failed, 1 passed, 1 error" in said


def test_the_same_tests_run_against_another_kafka(tmp_path: Path, kafka_factory: object) -> None:
    with LocalKafka() as other:
        other.create_topic("kept")
        same = PROJECT.replace("== []", "== ['kept']") + NEEDS_ITS_OWN
        said = run(tmp_path, same, f"--kafka-address={other.address}")
        assert "1 failed, 3 passed, 2 skipped" in said
        assert "kafka.fail needs a broker of its own" in said
        assert "config of the broker: not at the Kafka of --kafka-address" in said
        assert other.topics() == ["kept"]


def test_nothing_is_there_before_a_project_asks(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    for listed in ("--fixtures", "--help", "--markers"):
        said = run_here(tmp_path, None, listed)
        assert "pytest" in said and "kafka" not in said.replace(str(tmp_path), "") and "simulat" not in said


@pytest.mark.parametrize("asked", ["test module", "conftest", "option"])
def test_a_project_asks_in_one_line(tmp_path: Path, asked: str) -> None:
    line = 'pytest_plugins = ["odradek"]\n'
    text = "def test_it(kafka):\n    assert kafka.topics() == []\n"
    if asked == "conftest":
        (tmp_path / "conftest.py").write_text(f"from odradek.testing import Record\n\n{line}")
    (tmp_path / "test_it.py").write_text(f"{line}\n\n{text}" if asked == "test module" else text)
    said = run_here(tmp_path, None, *([ASKED] if asked == "option" else []))
    assert "1 passed" in said and "odradek:" not in said, said


UNASKED = {
    "parameter": {"test_it.py": "def test_it(kafka):\n    assert kafka.topics() == []\n"},
    "a fixture's": {
        "conftest.py": "import pytest\n\n@pytest.fixture\ndef mine(tmp_path, kafka):\n    return kafka\n",
        "test_it.py": "def test_it(mine):\n    assert mine.topics() == []\n",
    },
    "config file": {"pytest.ini": "[pytest]\nusefixtures = kafka_topic\n", "test_it.py": "def test_it(): pass\n"},
    "text": {"test_it.py": "def test_it(request):\n    assert request.getfixturevalue('kafka').topics() == []\n"},
}


@pytest.mark.parametrize("files", UNASKED.values(), ids=UNASKED)
def test_a_project_that_does_not_ask_is_told_to(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    said = run_here(tmp_path)
    assert "1 passed" in said
    assert 'write pytest_plugins = ["odradek"] in conftest.py' in said
    assert "1 passed" not in run_here(tmp_path, None, "-p", "no:odradek")


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ('pytest_plugins: list[str] = [\n  "pytester",\n  "odradek",\n]', True), ('pytest_plugins = "odradek"', True),
        ('pytest_plugins = "pytester"\npytest.importorskip("odradek")', False),
    ],
)  # fmt: skip
def test_a_module_asks_by_the_value_of_the_line_alone(line: str, asks: bool) -> None:
    assert fixtures_used(f"{line}\n\ndef test_it(kafka): ...") == (set() if asks else {"kafka"})


def test_a_fixture_of_the_project_brings_nothing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef kafka():\n    return 7\n")
    (tmp_path / "test_it.py").write_text(
        "def test_it(kafka, pytestconfig):\n    assert kafka == 7\n"
        "    assert not pytestconfig.pluginmanager.has_plugin('odradek.testing.plugin')\n"
    )
    said = run_here(tmp_path)
    assert "1 passed" in said and "odradek:" not in said


def test_the_option_brings_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(kafka):\n    assert kafka.topics() == []\n")
    with LocalKafka() as other:
        assert "1 passed" in run_here(tmp_path, None, f"--kafka-address={other.address}")


def test_the_names_of_all_fixtures_are_known() -> None:
    made = {name for name in dir(plugin) if type(getattr(plugin, name)).__name__ == "FixtureFunctionDefinition"}
    assert {name for name in made if not name.startswith("_")} == set(FIXTURES)


def test_the_plugin_imports_nothing_before_a_fixture_is_used() -> None:
    code = "import odradek.testing.plugin, sys; print({'odradek.broker', 'odradek.client', 'asyncio'} & {*sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert "odradek.broker" not in loaded.stdout and "odradek.client" not in loaded.stdout
