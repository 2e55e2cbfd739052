"""`odradek quotas` against a broker."""

from __future__ import annotations

import pytest
from odradek.tests.support.documents.command import rows, run

pytestmark = pytest.mark.usefixtures("address")
ALICE = ["alice", "-", "-", "producer_byte_rate", "10485760"]
BOTH = ["alice", "<default>", "-", "request_percentage", "12.5"]
ADDRESS = ["-", "-", "10.0.0.1", "connection_creation_rate", "20"]


def test_quotas_are_set_listed_and_deleted() -> None:
    assert rows("quotas", "set", "--user", "alice", "producer_byte_rate=10MiB") == [ALICE]
    assert rows("quotas", "set", "--user", "alice", "--client-id", "<default>", "request_percentage=12.5") == [BOTH]
    assert rows("quotas", "set", "--ip", "10.0.0.1", "connection_creation_rate=20") == [ADDRESS]
    assert sorted(rows("quotas", "list")) == sorted([ALICE, BOTH, ADDRESS])
    assert sorted(rows("quotas", "list", "--user", "alice")) == sorted([ALICE, BOTH])
    assert rows("quotas", "list", "--client-id", "<default>") == [BOTH]
    assert rows("quotas", "list", "--ip", "10.0.0.1") == [ADDRESS]
    assert rows("quotas", "delete", "--user", "alice", "consumer_byte_rate") == []
    assert rows("quotas", "delete", "--user", "alice", "--dry-run") == [ALICE]
    assert rows("quotas", "delete", "--user", "alice") == [ALICE]
    assert sorted(rows("quotas", "list")) == sorted([BOTH, ADDRESS])


def test_a_dry_run_sets_nothing_and_knows_what_is_wrong() -> None:
    assert rows("quotas", "set", "--user", "alice", "producer_byte_rate=10MiB", "--dry-run") == [ALICE]
    assert rows("quotas", "list") == []
    wrong = run("quotas", "set", "--user", "alice", "producer_byte_rate=0", "--dry-run")
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (1, 1)
    assert "Quota producer_byte_rate must be greater than 0" in wrong.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("set", "producer_byte_rate=1"), "name who the quota is for"),
        (("delete",), "name who the quota is for"),
        (("set", "--user", "a", "producer_byte_rate"), "needs NAME=VALUE"),
        (("set", "--user", "a", "bytes=1"), "a quota is one of producer_byte_rate"),
        (("set", "--user", "a", "request_percentage=much"), "request_percentage is a number, not 'much'"),
        (("set", "--user", "a", "producer_byte_rate=1h"), "units are"),
        (("delete", "--user", "a", "bytes"), "a quota is one of producer_byte_rate"),
    ],
)
def test_a_wrong_word_is_wrong_usage(args: tuple[str, ...], says: str) -> None:
    ended = run("quotas", *args)
    assert ended.exit_code == 2 and says in ended.stderr
