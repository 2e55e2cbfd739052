#!/bin/sh
# What librdkafka's tests call Kafka's own script for, to run Java programs of theirs: KAFKA_LIB has Kafka's jars.
exec java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$CLASSPATH:$KAFKA_LIB/*" "$@"
