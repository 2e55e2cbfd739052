"""`odradek config` and `transactions`, `topics alter` and `delete-records`; other people's admin clients."""

from __future__ import annotations

import json
import re

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from odradek.cli import main
from odradek.tests.support.documents.command import completed, printed, rejected

WAIT_S = 20


def test_a_topic_is_altered(broker: str) -> None:
    printed(broker, "topics", "create", "grown", "--partitions", "2", "--config", "flush.ms=5000")
    change = ("--partitions", "4", "--config", "segment.bytes=2000000", "--delete-config", "flush.ms")
    assert printed(broker, "topics", "alter", "grown", *change) == []
    assert len(printed(broker, "topics", "describe", "grown")) == 4
    assert printed(broker, "config", "describe", "--topic", "grown", "--changed") == [
        "segment.bytes\t2000000\ttopic\tyes\t2 MB"
    ]
    assert "cannot shrink 'grown' from" in rejected(broker, "topics", "alter", "grown", "--partitions", "3")
    assert "INVALID_CONFIG" in rejected(broker, "topics", "alter", "grown", "--config", "segment.bytes=1")
    assert "does not exist" in rejected(broker, "topics", "alter", "nobody", "--partitions", "3")


def test_what_is_only_validated_is_not_done(broker: str) -> None:
    printed(broker, "topics", "create", "seen", "--validate-only")
    assert "does not exist" in rejected(broker, "topics", "describe", "seen")
    printed(broker, "topics", "create", "seen")
    printed(broker, "topics", "alter", "seen", "--partitions", "3", "--config", "flush.ms=5000", "--validate-only")
    assert len(printed(broker, "topics", "describe", "seen")) == 1
    assert printed(broker, "config", "describe", "--topic", "seen", "--changed") == []
    too_many = "--partitions", "20000", "--validate-only"
    assert "POLICY_VIOLATION" in rejected(broker, "topics", "create", "much", *too_many)


def test_an_error_says_what_to_do(broker: str) -> None:
    printed(broker, "topics", "create", "there")
    assert "`odradek topics list`" in rejected(broker, "topics", "describe", "absent")
    assert "--if-not-exists" in rejected(broker, "topics", "create", "there")
    assert "did you mean retention.ms?" in rejected(broker, "topics", "create", "new", "--config", "retenton.ms=5")
    assert "did you mean retention.ms?" in rejected(broker, "config", "set", "retention.m=5", "--topic", "there")
    assert "did you mean num.partitions?" in rejected(broker, "config", "set", "num.partition=5", "--broker", "1")
    assert "`odradek config list --topics`" in rejected(broker, "config", "describe", "absent", "--topic", "there")
    assert "`odradek transactions list`" in rejected(broker, "transactions", "describe", "absent")
    hint = rejected(broker, "transactions", "abort", "--topic", "there:0", "--start-offset", "5", "--yes")
    assert "`odradek transactions describe --topic there:0`" in hint


def test_the_data_directories_and_what_is_in_them(broker: str) -> None:
    printed(broker, "topics", "create", "kept", "--partitions", "2")
    (summary,) = printed(broker, "log", "dirs", "--summary", "--topic", "kept")
    node, directory, error, partitions, size_bytes, total_bytes, usable_bytes = summary.split("\t")
    assert (node, error, partitions, size_bytes) == ("1", "-", "2", "0")
    assert 0 < int(usable_bytes) <= int(total_bytes)
    listed = printed(broker, "log", "dirs", "--topic", "kept", "--broker", "1")
    assert listed == [f"1\t{directory}\t-\tkept\t{number}\t0\t0\tno" for number in (0, 1)]
    (one,) = printed(broker, "log", "dirs", "--topic", "kept:1", "--json")
    assert json.loads(one) == {
        "broker": 1, "log_dir": directory, "error": None, "topic": "kept", "partition": 1, "size_bytes": 0,
        "offset_lag": 0, "is_future": False,
    }  # fmt: skip
    assert len(printed(broker, "log", "dirs")) > 2
    assert "there is no broker 7; there are 1" in rejected(broker, "log", "dirs", "--broker", "7")
    assert "has no partition 9" in rejected(broker, "log", "dirs", "--topic", "kept:9")


@pytest.mark.parametrize("group", ["topics", "config", "transactions", "log", "groups"])
def test_every_help_has_examples(group: str) -> None:
    found = main.get_command(click.Context(main), group)
    assert isinstance(found, click.Group)
    for each in (found, *found.commands.values()):
        assert re.search(f"Examples?:\n +odradek {group} ", each.help or ""), each.name


def test_configs_of_a_topic_and_of_brokers_are_set(broker: str) -> None:
    printed(broker, "topics", "create", "set")
    assert (
        printed(broker, "config", "set", "retention.ms=5000", "--append", "cleanup.policy=compact", "--topic", "set")
        == []
    )
    shown = printed(broker, "config", "describe", "retention.ms", "cleanup.policy", "--topic", "set")
    assert shown == ["cleanup.policy\tdelete,compact\ttopic\tyes\t-", "retention.ms\t5000\ttopic\tyes\t5 s"]
    printed(broker, "config", "set", "max.connections=1000", "--all-brokers")
    printed(broker, "config", "set", "max.connections=2000", "--broker", "1")
    assert printed(broker, "config", "describe", "--all-brokers") == ["max.connections\t1000\tevery broker\tyes\t-"]
    assert printed(broker, "config", "describe", "max.connections") == ["max.connections\t2000\tbroker\tyes\t-"]
    printed(broker, "config", "set", "--delete", "max.connections", "--broker", "1")
    assert printed(broker, "config", "describe", "max.connections") == ["max.connections\t1000\tevery broker\tyes\t-"]
    assert "dynamically: [num.partitions]" in rejected(broker, "config", "set", "num.partitions=3", "--broker", "1")
    printed(broker, "config", "set", "retention.ms=7", "--topic", "set", "--validate-only")
    described = printed(broker, "config", "describe", "retention.ms", "--topic", "set")
    assert described == ["retention.ms\t5000\ttopic\tyes\t5 s"]


def test_configs_of_a_group_are_set_before_and_while_it_exists(broker: str) -> None:
    printed(broker, "config", "set", "share.auto.offset.reset=earliest", "--group", "workers")
    shown = printed(broker, "config", "describe", "--group", "workers", "--changed")
    assert shown == ["share.auto.offset.reset\tearliest\tgroup\tyes\t-"]
    assert "config list --groups" in rejected(broker, "config", "describe", "retention.ms", "--group", "workers")
    assert "retention.ms" in rejected(broker, "config", "set", "retention.ms=7", "--group", "workers")
    printed(broker, "config", "set", "--delete", "share.auto.offset.reset", "--group", "workers")
    assert printed(broker, "config", "describe", "--group", "workers", "--changed") == []
    listed = CliRunner().invoke(main, ["config", "list", "--groups"]).stdout
    assert "share.auto.offset.reset\tstring\tlatest\tyes\t" in listed


def test_records_are_deleted_and_transactions_looked_at(broker: str) -> None:
    printed(broker, "topics", "create", "records")
    producer = Producer({"bootstrap.servers": broker, "transactional.id": "hangs", "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for number in range(10):
        producer.produce("records", b"%d" % number)
    assert producer.flush(WAIT_S) == 0
    (listed,) = printed(broker, "transactions", "list", "--state", "Ongoing")
    assert listed.startswith("hangs\t")
    assert "\tOngoing\t" in printed(broker, "transactions", "describe", "hangs")[0]
    (active,) = printed(broker, "transactions", "describe", "--topic", "records:0")
    assert active.endswith("\t0")
    assert "no open transaction" in rejected(
        broker, "transactions", "abort", "--topic", "records:0", "--start-offset", "5", "--yes"
    )
    assert printed(broker, "transactions", "abort", "--topic", "records:0", "--start-offset", "0", "--yes") == []
    assert not printed(broker, "transactions", "describe", "--topic", "records:0")[0].endswith("\t0")
    assert printed(broker, "topics", "delete-records", "--topic", "records:0", "--before", "4", "--yes") == [
        "records\t0\t4"
    ]
    assert printed(broker, "topics", "delete-records", "records", "--before", "5", "--yes")[0] == "records\t0\t5"
    assert completed("topics", "delete-records", "--yes", "-b", broker).returncode == 2


def test_confluents_admin_client(broker: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.create_topics([NewTopic("conf", 2, config={"segment.bytes": "2000000"})]).values():
        future.result(WAIT_S)
    for future in admin.create_partitions([NewPartitions("conf", 5)]).values():
        future.result(WAIT_S)
    assert len(admin.list_topics("conf", WAIT_S).topics["conf"].partitions) == 5
    change = ConfigEntry("retention.ms", "7000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "conf", incremental_configs=[change])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)
    (described,) = (each.result(WAIT_S) for each in admin.describe_configs([ConfigResource("topic", "conf")]).values())
    assert (described["retention.ms"].value, described["segment.bytes"].value) == ("7000", "2000000")
    whole = ConfigResource(ResourceType.TOPIC, "conf", set_config={"flush.ms": "9000"})
    with pytest.warns(DeprecationWarning):
        replaced = admin.alter_configs([whole])
    for future in replaced.values():
        future.result(WAIT_S)
    (described,) = (each.result(WAIT_S) for each in admin.describe_configs([ConfigResource("topic", "conf")]).values())
    assert (described["flush.ms"].value, described["segment.bytes"].value) == ("9000", "1073741824")
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        next(iter(admin.create_partitions([NewPartitions("conf", 5)]).values())).result(WAIT_S)


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")
def test_kafka_pythons_admin_client(broker: str) -> None:
    from kafka.admin import KafkaAdminClient, NewPartitions
    from kafka.admin import NewTopic as New

    admin = KafkaAdminClient(bootstrap_servers=broker)
    try:
        admin.create_topics([New("kp", num_partitions=2, replication_factor=1)])
        admin.create_partitions({"kp": NewPartitions(total_count=4)})
        (topic,) = admin.describe_topics(["kp"])
        assert len(topic["partitions"]) == 4
        admin.delete_topics(["kp"])
        assert "kp" not in admin.list_topics()
    finally:
        admin.close()
