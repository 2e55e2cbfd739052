#!/bin/sh
# What librdkafka's tests call Kafka's own script for, without Kafka: ODRADEK_PYTHON runs kafka_topics.py.
exec "${ODRADEK_PYTHON:-python3}" "$(dirname "$0")/kafka_topics.py" "$@"
