"""The table of options: every option of the clients and of the Spark source and sink, in one row each.

A row has the option's name, the values that it takes, its default, who takes it, and what it means. Checks, messages,
`-X` and profiles of the command line, Spark's `kafka.` options and docs/options.md are made from these rows.
`fetch_min_bytes` is Kafka's `fetch.min.bytes`: -X, profiles and Spark write the dots.

Ranges are those of Kafka's ConfigDef. They are narrower where a value could only do harm: with a pause of 0 a client
would ask without an end, and with 0 bytes it would never fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...protocol.records.compression import Compression
from .option_values import DAY_MS, INT64_MAX, SWITCH, TEXT, Choice, Number, Span, Time, Values

# A time that a caller waits, and one between two requests.
WAIT, PAUSE = Number(0, is_whole=False), Number(1, is_whole=False)
ANY_TEXT = Values("a text")
CODECS = Choice(tuple(codec.name.lower() for codec in Compression), ignores_case=True)
# Brokers remember the last five batches of a producer.
MAX_IDEMPOTENT_IN_FLIGHT = 5
ACKS = Choice((0, 1, -1, "all", "-1", "0", "1"), '0, 1 or "all"')
LEVELS = Choice(("read_uncommitted", "read_committed"))
PROTOCOLS = Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
GROUP_PROTOCOLS = Choice(("auto", "classic", "consumer"))
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
FORMATS = Choice(("json", "msgpack", "avro", "string", "json-schema"))
_PATHS = Choice(("fetch", "direct", "auto"), hint="; topics are named with subscribe, subscribePattern or assign")
_COUNT, _OFFSET = Number(1, INT64_MAX), Number(0, INT64_MAX)

# -- Rows


class Option(NamedTuple):
    """A row: who takes the option, where `takers` are words of TAKERS."""

    name: str
    values: Values
    default: Any
    takers: str
    meaning: str
    # Kafka's names of other clients for it.
    others: str = ""
    # The defaults of takers that have another one.
    own: Mapping[str, Any] = {}

    @property
    def config(self) -> str:
        """Kafka's name."""
        return self.name.replace("_", ".")

    @property
    def is_checked(self) -> bool:
        """Whether the table knows its values, so that a text can give one. Other options are checked where they act."""
        return type(self.values) is not Values

    def is_of(self, *takers: str) -> bool:
        """Return whether one of `takers` takes it."""
        return not set(takers).isdisjoint(self.takers.split())

    def default_of(self, taker: str) -> Any:
        """Return its default there."""
        return self.own.get(taker, self.default)


# Word -> who that is.
TAKERS = {
    "admin": "`Admin`",
    "producer": "`Producer`",
    "consumer": "`Consumer`",
    "member": "`Consumer` in a group",
    "share": "`ShareConsumer`",
    "simple": "`SimpleConsumer`",
    "connector": "`ConsumerConnector`",
    "source": "Spark's reads",
    "batch": "Spark's batch reads",
    "stream": "Spark's streaming reads",
    "sink": "Spark's writes",
    "tables": "Spark's writes to tables",
}
_ALL = "admin producer consumer share simple connector source sink"
_WRITES = "producer sink"
_CLIENT_IDS = {
    **{each: f"odradek-{each}" for each in ("admin", "producer", "consumer", "connector")},
    "share": "odradek-share-consumer",
    "simple": "odradek-simple-consumer",
    "source": "odradek-spark",
    "sink": "odradek-spark",
}
_ROWS = (
    # Every client.
    Option("bootstrap_servers", Values("HOST:PORT, or several"), "127.0.0.1:9092",
        "admin producer consumer share source sink", "some brokers of the cluster", "metadata.broker.list"),
    Option("client_id", TEXT, "odradek", _ALL, "the client's name in the logs and quotas of brokers",
        own=_CLIENT_IDS),
    Option("request_timeout_ms", PAUSE, 30_000, _ALL, "how long a broker may take to answer a request",
        "socket.timeout.ms"),
    Option("default_api_timeout_ms", WAIT, 60_000, "admin consumer share simple source",
        "how long a call may take in all, with its retries"),
    Option("socket_connection_setup_timeout_ms", PAUSE, 10_000, "source",
        "how long a broker may take to take a connection"),
    Option("retry_backoff_ms", WAIT, 100, "admin producer consumer share source sink",
        "the pause before the first retry; each further one is twice as long", "reconnect.backoff.ms"),
    Option("retry_backoff_max_ms", WAIT, 1_000, "admin producer consumer share source sink",
        "the longest pause before a retry", "reconnect.backoff.max.ms"),
    Option("metadata_max_age_ms", PAUSE, 300_000, "admin producer consumer share sink",
        "when metadata are asked for again"),
    Option("connections_max_idle_ms", Number(-1), 540_000, "source",
        "how long the driver of a stream uses an idle connection again; -1: for ever"),
    # Kafka: 64 KiB and 128 KiB.
    Option("receive_buffer_bytes", Number(-1), -1, "source",
        "the socket's; -1: the system's own size, which it adapts"),
    Option("send_buffer_bytes", Number(-1), -1, "source", "the socket's; -1: the system's own size, which it adapts"),
    # Writing.
    Option("acks", ACKS, "all", _WRITES, "who has a record when it is acknowledged", "request.required.acks"),
    Option("linger_ms", WAIT, 5, _WRITES, "how long a record waits for others of its batch", "queue.buffering.max.ms"),
    # Spark: a batch costs the task 0.1 ms of CPU whatever is in it: 4 times as large, 0.06 s less a M rows.
    Option("batch_size", Number(0), 131_072, _WRITES, "the most bytes of a batch", "max.batch.size",
        own={"sink": 524_288}),
    Option("compression_type", CODECS, "none", _WRITES, "the codec of batches", "compression.codec"),
    Option("enable_idempotence", SWITCH, True, _WRITES, "the broker writes a record once that is sent again"),
    Option("max_request_size", Number(0), 1_048_576, _WRITES, "the most bytes of a request and of a record",
        "message.max.bytes"),
    Option("max_in_flight_requests_per_connection", Number(1), 5, _WRITES,
        "how many requests a connection has under way; idempotence allows 5", "max.in.flight"),
    Option("buffer_memory", Number(0, INT64_MAX), 33_554_432, _WRITES, "how many bytes of records may wait",
        "queue.buffering.max.kbytes"),
    Option("delivery_timeout_ms", WAIT, 120_000, _WRITES, "how long a record may take, with its retries",
        "message.timeout.ms"),
    Option("max_block_ms", WAIT, 60_000, _WRITES, "how long a call waits for schema, metadata and room, or a commit"),
    Option("transactional_id", TEXT, None, "producer", "makes transactions possible; no two producers share one"),
    # Spark: a transaction lasts until the last task of its batch has ended. Brokers allow no more by default.
    Option("transaction_timeout_ms", Number(1), 60_000, _WRITES, "when the coordinator aborts an open transaction",
        own={"sink": 900_000}),
    Option("key_serializer", Values("a name, a function or an object"), None, "producer", "makes bytes of keys"),
    Option("value_serializer", Values("a name, a function or an object"), None, "producer", "makes bytes of values"),
    Option("partitioner", Values("a name or a function"), "murmur2", "producer", "chooses the partition"),
    Option("interceptors", Values("several objects"), (), "producer", "see or change each record before it is sent"),
    Option("listeners", Values("several objects"), (), "producer", "are told what became of each record"),
    # Reading.
    Option("isolation_level", LEVELS, "read_uncommitted", "consumer simple source",
        "`read_committed` leaves out records of aborted and open transactions"),
    Option("fetch_min_bytes", Number(0), 1, "consumer share connector source",
        "for how many bytes a broker lets a fetch wait"),
    Option("fetch_max_wait_ms", Number(0), 500, "consumer share connector source", "how long a fetch waits for them",
        "fetch.wait.max.ms", own={"connector": 100}),
    Option("fetch_max_bytes", Number(1), 52_428_800, "consumer share source", "the most bytes of a fetch"),
    # Spark: a task reads one partition alone, and fewer round trips are faster.
    Option("max_partition_fetch_bytes", Number(1), 1_048_576, "consumer connector source",
        "the most bytes of a partition in a fetch", "fetch.message.max.bytes", own={"source": 4_194_304}),
    Option("check_crcs", SWITCH, True, "consumer share simple source", "whether the CRC of each batch is checked"),
    Option("max_poll_records", Number(1), 500, "consumer share connector", "the most records of a poll"),
    Option("auto_offset_reset", Values("earliest, latest, none or by_duration:PT1H"), "latest", "consumer connector",
        "where to read if there is no committed offset, or it is gone"),
    Option("client_rack", TEXT, None, "consumer share", "where the client is: it may read from a follower there"),
    Option("allow_auto_create_topics", SWITCH, True, "consumer share", "whether asking for a topic may create it"),
    Option("offset_store", Values("an object"), None, "consumer", "where offsets are committed instead of the group"),
    Option("key_deserializer", Values("a name, a function or an object"), None, "consumer share", "reads keys"),
    Option("value_deserializer", Values("a name, a function or an object"), None, "consumer share", "reads values"),
    # Groups.
    Option("group_id", TEXT, None, "consumer share connector source", "the group whose members share the partitions"),
    Option("group_instance_id", TEXT, None, "member",
        "makes a static member, which may be away for a session time-out"),
    Option("enable_auto_commit", SWITCH, True, "member connector", "whether processed records are committed by time"),
    Option("auto_commit_interval_ms", PAUSE, 5_000, "member connector", "how often they are committed",
        own={"connector": 60_000}),
    Option("session_timeout_ms", Number(1), 45_000, "member", "how long a member may be silent"),
    Option("heartbeat_interval_ms", PAUSE, 3_000, "member", "how often a member says that it is there"),
    Option("max_poll_interval_ms", Number(1), 300_000, "member share", "how long a member may work between polls",
        "rebalance.timeout.ms"),
    Option("partition_assignment_strategy", Values("classes of assignors"), ("RangeAssignor",), "member",
        "how the members share the partitions, best first"),
    Option("group_protocol", GROUP_PROTOCOLS, "auto", "member",
        "`consumer`: the coordinator assigns, and moves single partitions (KIP-848); `auto`: that one where the "
        "broker has it and no option of `classic` is set"),
    Option("group_remote_assignor", Values("a name, such as uniform or range"), None, "member",
        "the coordinator's assignor, for `consumer` alone; none: the one that the group has"),
    # Groups of Kafka 0.8.
    Option("zookeeper_connect", TEXT, "127.0.0.1:2181", "connector", "the ZooKeeper of the group"),
    Option("consumer_id", TEXT, None, "connector", "the member's name; none: its host and a UUID"),
    Option("offsets_storage", Choice(("zookeeper", "kafka")), "zookeeper", "connector", "where offsets are committed"),
    Option("dual_commit_enabled", SWITCH, False, "connector", "whether they are committed in both places"),
    Option("rebalance_max_retries", Number(1), 4, "connector", "how often a rebalance is tried"),
    Option("rebalance_backoff_ms", PAUSE, 2_000, "connector", "the pause between two of them"),
    Option("zookeeper_session_timeout_ms", PAUSE, 6_000, "connector", "how long it may be silent"),
    Option("zookeeper_connection_timeout_ms", PAUSE, 6_000, "connector", "how long ZooKeeper may take to answer first"),
    # Share groups.
    Option("share_acknowledgement_mode", Choice(("implicit", "explicit")), "implicit", "share",
        "`explicit`: the program says of each record what became of it; `implicit`: a poll accepts the records before"),
    Option("share_acquire_mode", Choice(("batch_optimized", "record_limit")), "batch_optimized", "share",
        "`record_limit`: a fetch acquires no more than `max_poll_records`, and not whole batches. "
        "`consume` always asks so, for what its tasks soon work on"),
    Option("acknowledgement_listener", Values("a function"), None, "share",
        "is told which records a leader has, or has not, taken as settled"),
    # Security.
    Option("security_protocol", PROTOCOLS, "PLAINTEXT", _ALL, "whether connections use TLS and SASL"),
    Option("ssl_cafile", TEXT, None, _ALL, "the authorities to trust, a file in PEM; without it those of the system",
        "ssl.ca.location ssl.truststore.location"),
    Option("ssl_cadata", Values("a text in PEM"), None, _ALL, "the authorities to trust",
        "ssl.ca.pem ssl.truststore.certificates"),
    Option("ssl_certfile", TEXT, None, _ALL, "the client's certificate, a file in PEM",
        "ssl.certificate.location ssl.keystore.location"),
    Option("ssl_keyfile", TEXT, None, _ALL, "its key, if that is in another file", "ssl.key.location"),
    Option("ssl_password", TEXT, None, _ALL, "the password of the key", "ssl.key.password"),
    Option("ssl_check_hostname", SWITCH, True, _ALL, "whether the broker's certificate must name its host"),
    Option("ssl_context", Values("an ssl.SSLContext"), None, "admin producer consumer share simple connector",
        "takes the place of the other `ssl_` options; its files are not read again"),
    Option("sasl_mechanism", Values(f"one of {', '.join(MECHANISMS)}"), None, _ALL,
        "how the client authenticates", "sasl.mechanisms"),
    Option("sasl_plain_username", TEXT, None, _ALL, "for PLAIN and SCRAM", "sasl.username"),
    Option("sasl_plain_password", TEXT, None, _ALL, "for PLAIN and SCRAM", "sasl.password"),
    Option("sasl_oauth_token_provider", Values("a function, or an object with `token()`"), None,
        "admin producer consumer share simple connector",
        "for OAUTHBEARER: asked before each connection, and before the broker ends the session"),
)  # fmt: skip
# Options of the clients and of Kafka, by Python's names and by Kafka's.
OPTIONS = {each.name: each for each in _ROWS}
CONFIGS = {each.config: each for each in _ROWS}
# Other clients' names -> the option.
OTHER_NAMES = {name: each for each in _ROWS for name in each.others.split()}

_SPARK_ROWS = (
    Option("subscribe", ANY_TEXT, None, "source", "topics"),
    Option("subscribePattern", ANY_TEXT, None, "source", "a pattern of topics"),
    Option("assign", ANY_TEXT, None, "source", "partitions, in JSON"),
    Option("startingOffsets", ANY_TEXT, None, "source", "where to begin"),
    Option("startingOffsetsByTimestamp", ANY_TEXT, None, "source", "where to begin: a time for each partition"),
    Option("startingTimestamp", _OFFSET, None, "source", "where to begin: one time"),
    Option("startingOffsetsByTimestampStrategy", Choice(("error", "latest")), "error", "source",
        "what to do where no record is so late"),
    Option("failOnDataLoss", SWITCH, True, "source", "whether offsets that are gone fail the read"),
    Option("includeHeaders", SWITCH, False, "source sink", "adds the column `headers`"),
    Option("minPartitions", Number(1), None, "source", "how many tasks, at least"),
    Option("maxRecordsPerPartition", _COUNT, None, "source", "how many offsets of a task, at most"),
    Option("kafkaConsumer.pollTimeoutMs", Number(1, DAY_MS), 120_000, "source", "how long a task waits for the broker"),
    Option("arrowBatchRows", Number(1, 1_000_000), 32_768, "source", "the most rows of an Arrow batch"),
    Option("strictOptions", SWITCH, False, "source sink tables", "whether an unknown option is an error"),
    Option("partitions", ANY_TEXT, None, "source", "the partitions to read, by number"),
    Option("path", _PATHS, "fetch", "source", "from the broker, or from its files"),
    Option("valueFormat", FORMATS, None, "source sink", "how values become bytes"),
    Option("valueSchema", ANY_TEXT, None, "source", "the fields of values, in DDL"),
    Option("valueAvroSchema", ANY_TEXT, None, "source sink", "the schema of values in Avro"),
    Option("valueJsonSchema", ANY_TEXT, None, "sink", "the JSON Schema of values"),
    Option("keyFormat", FORMATS, None, "source sink", "how keys become bytes"),
    Option("keySchema", ANY_TEXT, None, "source", "the fields of keys, in DDL"),
    Option("keyAvroSchema", ANY_TEXT, None, "source sink", "the schema of keys in Avro"),
    Option("keyJsonSchema", ANY_TEXT, None, "sink", "the JSON Schema of keys"),
    Option("schemaRegistry", ANY_TEXT, None, "source sink", "the URL of a schema registry, for avro and json-schema"),
    Option("schemaRegistryUser", ANY_TEXT, None, "source sink", "who logs in there"),
    Option("schemaRegistryPassword", ANY_TEXT, None, "source sink", "with which password"),
    Option("schemaRegistryCa", ANY_TEXT, None, "source sink", "the certificates to trust there, a file in PEM"),
    Option("valueSubject", ANY_TEXT, None, "source sink", "the subject of values; TOPIC-value if none"),
    Option("keySubject", ANY_TEXT, None, "source sink", "the subject of keys; TOPIC-key if none"),
    Option("mode", Choice(("PERMISSIVE", "DROPMALFORMED", "FAILFAST")), "PERMISSIVE", "source",
        "what becomes of bad records"),
    Option("endingOffsets", ANY_TEXT, "latest", "batch", "where to end"),
    Option("endingOffsetsByTimestamp", ANY_TEXT, None, "batch", "where to end: a time for each partition"),
    Option("endingTimestamp", _OFFSET, None, "batch", "where to end: one time"),
    Option("minOffset", _OFFSET, None, "batch", "the first offset"),
    Option("maxOffset", _OFFSET, None, "batch", "the offset behind the last"),
    Option("minTimestamp", Time("a time"), None, "batch", "the time of the first record"),
    Option("maxTimestamp", Time("a time"), None, "batch", "the time behind the last record"),
    Option("limit", _COUNT, None, "batch", "the most rows"),
    Option("maxOffsetsPerTrigger", _COUNT, None, "stream", "the most offsets of a batch"),
    # As the brokers store them: compressed, if they are.
    Option("maxBytesPerTrigger", _COUNT, None, "stream", "about the most bytes of a batch"),
    Option("minOffsetsPerTrigger", _COUNT, None, "stream", "for how many offsets a batch waits"),
    Option("maxTriggerDelay", Span("a span of time"), 15 * 60 * 1000, "stream", "how long a batch waits for them"),
    Option("groupIdPrefix", ANY_TEXT, "spark-odradek", "stream", "how the group of a query is named"),
    Option("commitOffsets", SWITCH, True, "stream", "whether progress is committed to the group"),
    Option("topic", ANY_TEXT, None, "sink", "the topic of all rows"),
    Option("timestampColumn", ANY_TEXT, None, "sink", "the column with the timestamps"),
    Option("transactional", Choice(("auto", "required", "never")), "auto", "sink", "whether a batch is a transaction"),
    Option("checkpointLocation", ANY_TEXT, None, "sink tables", "Spark's own"),
    Option("to", ANY_TEXT, None, "tables", "a directory, an object store, or iceberg://CATALOG"),
    Option("catalogDb", ANY_TEXT, None, "tables", "the catalog's file of SQLite, for an object store"),
    Option("table", ANY_TEXT, None, "tables", "the table, with its namespace"),
    Option("partitionBy", ANY_TEXT, None, "tables", "day(COLUMN): how a new table is partitioned"),
)  # fmt: skip
# What Spark calls without `kafka.`.
SPARK_OPTIONS = {each.name: each for each in _SPARK_ROWS}
# Arguments of calls that are numbers.
CALL_NUMBERS = {
    "attempts": Number(1),
    "concurrency": Number(1),
    "drain_timeout_ms": WAIT,
    "max_records": Number(1),
    "timeout_ms": WAIT,
}
