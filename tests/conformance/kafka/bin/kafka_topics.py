"""What librdkafka's tests use of `kafka-topics.sh`: --create (with --config), --alter --partitions N, --delete."""

from __future__ import annotations

import argparse
from concurrent.futures import Future

from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import NewTopic

WITHIN_S = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=-1)
    parser.add_argument("--replication-factor", type=int, default=-1)
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    what = parser.add_mutually_exclusive_group(required=True)
    for action in ("--create", "--alter", "--delete"):
        what.add_argument(action, action="store_true")
    asked = parser.parse_args()
    admin = AdminClient({"bootstrap.servers": asked.bootstrap_server})
    answers: dict[str, Future[None]]
    if asked.create:
        config = dict(each.split("=", 1) for each in asked.config)
        topic = NewTopic(asked.topic, asked.partitions, asked.replication_factor, config=config)
        answers = admin.create_topics([topic])
    elif asked.alter:
        answers = admin.create_partitions([NewPartitions(asked.topic, asked.partitions)])
    else:
        answers = admin.delete_topics([asked.topic])
    answers[asked.topic].result(WITHIN_S)


if __name__ == "__main__":
    main()
