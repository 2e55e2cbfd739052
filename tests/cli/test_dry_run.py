"""Commands that change something say with --dry-run what they would do, and change nothing."""

from __future__ import annotations

import subprocess

from odradek.tests.support.documents.command import command_line, odradek, printed, rejected


def test_nothing_is_changed(broker: str) -> None:
    assert printed(broker, "topics", "create", "kept", "--partitions", "2") == []
    command = command_line(broker, "produce", "kept", "--partition", "1", "-v")
    sent = subprocess.run(command, input="one\ntwo\n", stdout=subprocess.PIPE, text=True, check=True)
    assert sent.stdout.splitlines() == ["1\t0", "1\t1"]
    assert printed(broker, "consume", "kept", "-g", "readers", "--until-end", "--max", "2") == ["one", "two"]
    before = [printed(broker, "topics", "describe", "kept"), printed(broker, "groups", "describe", "readers")]
    listed = printed(broker, "cluster", "list")
    assert listed[0] == f"broker\t1\t{broker}\t-\tyes"
    assert listed[1:] == ["partition\tkept\t0\t1\t1\t1", "partition\tkept\t1\t1\t1\t1"]
    assert printed(broker, "topics", "delete", "kept", "--dry-run") == ["kept\t2"]
    assert printed(broker, "topics", "delete-records", "kept", "--dry-run") == ["kept\t0\t0", "kept\t1\t2"]
    assert printed(broker, "topics", "delete-records", "kept:1", "--before", "1", "--dry-run") == ["kept\t1\t1"]
    assert printed(broker, "topics", "create", "other", "--dry-run") == []
    assert printed(broker, "topics", "alter", "kept", "--partitions", "9", "--dry-run") == []
    assert printed(broker, "groups", "delete", "readers", "--dry-run")[0].startswith("readers\tEmpty\t")
    assert "kept\t1\t2" in printed(broker, "groups", "delete-offsets", "readers", "--topic", "kept", "--dry-run")
    assert odradek(broker, "config", "set", "retention.ms=1h", "--topic", "kept", "--dry-run").returncode == 0
    assert printed(broker, "cluster", "elect-leaders", "--dry-run") == []
    assert printed(broker, "cluster", "reassign", "kept", "0", "--to", "2", "--dry-run") == ["kept\t0\t1\t2"]
    assert "does not exist" in rejected(broker, "topics", "delete", "missing", "--dry-run")
    assert printed(broker, "topics", "delete", "missing", "--if-exists", "--dry-run") == []
    assert [printed(broker, "topics", "describe", "kept"), printed(broker, "groups", "describe", "readers")] == before
    assert printed(broker, "topics", "list") == ["kept\t2"]
