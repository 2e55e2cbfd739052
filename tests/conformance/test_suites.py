"""The lines that a run of some parts leaves in docs/conformance.md."""

from __future__ import annotations

from odradek.tests.conformance import suites, table

PAGE = "# Conformance\n\n| Produce | 0 | 13 | 2 | test | Java | passed |\n"
RAN = {"librdkafka": [("0012", "passed"), ("0011", "passed: quickly"), ("0092", "given up: a config | gone")]}


def test_passed_tests_are_counted_and_others_are_listed_with_their_reason() -> None:
    page = suites.with_suites(PAGE, PAGE, RAN)
    assert page.startswith(PAGE.rstrip())
    assert "| librdkafka's tests | 2 | passed |\n| librdkafka's tests | 0092 | given up: a config \\| gone |\n" in page


def test_a_part_that_did_not_run_keeps_its_lines() -> None:
    once = suites.with_suites(PAGE, PAGE, RAN)
    assert suites.with_suites(once, once, {}) == once
    twice = suites.with_suites(PAGE, once, {"console": [("gzip", "passed")]})
    assert "| librdkafka's tests | 2 | passed |" in twice and "| Kafka's console tools | 1 | passed |" in twice


def test_the_suites_are_no_part_of_what_is_served() -> None:
    assert table.held(suites.with_suites(PAGE, PAGE, RAN)) == table.held(PAGE) == {(0, 13): "passed"}
