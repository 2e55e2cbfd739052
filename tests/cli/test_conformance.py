"""`odradek conformance`: the report of a broker that does as Kafka does, and of one that does not."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from odradek.protocol.errors import ErrorCode
from odradek.testing import LocalKafka
from odradek.testing.checks import CHECKS
from odradek.tests.support.command import completed


def test_this_broker_passes_all_checks(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    with LocalKafka() as kafka:
        done = completed("conformance", "-b", kafka.address, "--json", "--junit", str(report))
        assert (kafka.topics(), kafka.groups()) == ([], [])
    outcomes = json.loads(done.stdout)
    assert [each for each in outcomes if each["outcome"] != "passed"] == []
    assert [each["name"] for each in outcomes] == [name for name, _ in CHECKS]
    assert done.returncode == 0
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == (str(len(CHECKS)), "0")


def test_a_broker_with_a_fault_fails_and_says_how(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    with LocalKafka() as kafka:
        kafka.fail("DeleteTopics", "CLUSTER_AUTHORIZATION_FAILED", times=1)
        done = completed("conformance", "-b", kafka.address, "--only", "deleted-topics", "--junit", str(report))
    assert done.returncode == 1
    assert done.stdout.startswith("deleted-topics-are-gone\tfailed\t")
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name in done.stdout
    (case,) = ElementTree.parse(report).getroot()
    assert [each.tag for each in case] == ["failure"]


def test_what_an_old_broker_does_not_have_is_skipped() -> None:
    with LocalKafka(versions="2.0") as kafka:
        done = completed("conformance", "-b", kafka.address, "--only", "configs-of-topics", "--json")
    assert [each["outcome"] for each in json.loads(done.stdout)] == ["skipped"]
    assert done.returncode == 0


def test_an_unknown_check_names_those_that_there_are() -> None:
    done = completed("conformance", "--only", "nothing")
    assert done.returncode == 2 and "deleted-topics-are-gone" in done.stderr
