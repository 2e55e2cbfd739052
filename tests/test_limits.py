"""docs/limits.md: every row is a bound of the code or the default of a config, with the number that the code has."""

from __future__ import annotations

from pathlib import Path

import odradek
from odradek.broker import server, turns
from odradek.broker.configs import definition
from odradek.broker.configs.broker_config import BROKER_CONFIGS
from odradek.broker.coordination.consumer import regexes
from odradek.broker.coordination.groups import history, subscriptions
from odradek.broker.coordination.modern import target
from odradek.broker.coordination.share_groups import state_work
from odradek.broker.coordination.share_states import machine as share_machine
from odradek.broker.coordination.transactions import description
from odradek.broker.handlers import (
    acls,
    fetch,
    scram_credentials,
    segment_leases,
    share_acknowledge,
    share_fetch,
)
from odradek.broker.handlers import (
    client_quotas as quota_handlers,
)
from odradek.broker.http import endpoint, group_lag, unread_ages
from odradek.broker.network import (
    connection_limits,
    dispatcher,
    large_messages,
    line_limit,
    login,
    routes,
    send_queue,
    tls_door,
    tls_handshake,
)
from odradek.broker.network.access import caller
from odradek.broker.quotas import client_quotas, connection_rates
from odradek.broker.security import pem
from odradek.broker.security.sasl import scram, signed_tokens
from odradek.broker.share_partitions import dead_letters, sessions
from odradek.broker.share_partitions import machine as share_partition
from odradek.broker.threads import Work
from odradek.broker.topics import conversion, disk_reads, fetch_sessions, topic_names, validation
from odradek.protocol import decoding
from odradek.protocol.apis import ApiKey
from odradek.protocol.records import compression, legacy
from odradek.storage import producers

PAGE = Path(odradek.__path__[0]) / "docs" / "limits.md"
BY_KEY = {route.key: route for route in routes.ROUTES}
# A row without a config: what it bounds, and the bound.
FIXED = {
    "time for a TLS handshake (ms)": tls_door.HANDSHAKE_MS,
    "TLS handshakes under way": tls_door.MAX_HANDSHAKES,
    "what a client sends until its TLS handshake is done (bytes)": tls_handshake.MAX_HANDSHAKE_BYTES,
    "time for a login by SASL (ms)": login.LOGIN_MS,
    "logins whose token is being checked": server.SECURITY_QUEUE,
    "characters of a text in the history of a group: a reason, an id": history.MAX_TEXT_CHARS,
    "characters of the value that a client gives to a config that is no password": definition.MAX_VALUE_CHARS,
    "lines of the log about clients that one processor or one listener with TLS refuses or closes, in 10 s": (
        line_limit.MAX_LOG_LINES
    ),
    "a message of SCRAM (bytes)": scram.MAX_MESSAGE_BYTES,
    "keys of the issuer of tokens (bytes)": signed_tokens.MAX_KEYS_BYTES,
    "a PEM store (bytes)": pem.MAX_PEM_BYTES,
    "share of the descriptors (`ulimit -n`) left to the logs: one in": connection_limits.KEPT_FOR_FILES,
    "any other request": dispatcher.MAX_VALUES_BYTES,
    "values (array elements) of one request": large_messages.MAX_VALUES,
    "tagged fields in a request header": decoding.MAX_HEADER_TAGS,
    "requests of one connection that are handled at a time": 1,
    "responses that wait for one client": send_queue.GATHER_BYTES,
    "large requests at a time, and large responses": large_messages.AT_ONCE,
    "characters of the name of a user with a password": scram_credentials.MAX_NAME_CHARS,
    "salt of a password (bytes)": scram_credentials.MAX_SALT_BYTES,
    "entities that have quotas": quota_handlers.MAX_ENTITIES,
    "characters of the names of such an entity": quota_handlers.MAX_NAME_CHARS,
    "clients whose use of a quota is counted": client_quotas.MAX_METERS,
    "time that a new connection waits for its turn (ms)": connection_rates.MAX_MS,
    "ACLs": acls.MAX_ACLS,
    "characters of all ACLs together": acls.MAX_ACL_CHARS,
    "ACLs that one request creates or deletes": acls.MAX_CHANGED,
    "lines of the audit log for one request": caller.MAX_LINES,
    "a batch or message set when decompressed": compression.MAX_DECOMPRESSED_BYTES,
    "messages of a message set (clients before 0.11)": legacy.MAX_MESSAGES,
    "batches that are rewritten or converted at a time": conversion.AT_ONCE,
    "bytes of batches that one turn writes": BY_KEY[ApiKey.PRODUCE].max_values * routes.VALUE_BYTES,
    "bytes of a batch that the event loop writes": validation.VERY_LARGE_BYTES,
    "record errors of one rejected batch": validation.MAX_RECORD_ERRORS,
    "producer ids of one partition": producers.PRODUCERS_MAX,
    "files of one lease": segment_leases.MAX_FILES,
    "values of one request": BY_KEY[ApiKey.FETCH].max_values,
    "partitions that a Fetch reads at once": fetch.AT_ONCE,
    "bytes of a file in memory for one client": send_queue.WHOLE_BYTES,
    "partitions of one session": fetch_sessions.MAX_PARTITIONS_OF_ONE,
    "partitions of all sessions": fetch_sessions.MAX_PARTITIONS,
    "partitions of one session, with those that it has left": sessions.MAX_PARTITIONS_OF_ONE,
    "partitions of all share sessions": sessions.MAX_PARTITIONS,
    "records of a batch of dead letters": dead_letters.MAX_RECORDS,
    "groups whose dead letters are counted": dead_letters.MAX_COUNTED_GROUPS,
    "batches of dead letters that are made and sent at a time": dead_letters.MAX_BATCHES,
    "batches that are acknowledged in one partition at once": share_acknowledge.MAX_BATCHES,
    "woken partitions that a waiting ShareFetch looks at at once": share_fetch.PARTITIONS_AT_ONCE,
    "neighbouring records of one state that a ShareFetch acquires of a partition": share_partition.MAX_ACQUIRED,
    "cold look-ups of one request at a time": disk_reads.READS_AT_ONCE,
    "threads that read what is not in memory, in each data directory": Work.READ.threads,
    "values of a response that are made in the turn of its request": turns.VALUES_AT_ONCE,
    "partitions of a topic, and new ones of one CreateTopics or CreatePartitions": topic_names.MAX_PARTITIONS_PER_TOPIC,
    "bytes of a text in a request": decoding.MAX_TEXT_BYTES,
    "pattern of a ListTransactions (characters)": description.MAX_PATTERN,
    "connections of HTTP clients": endpoint.MAX_CONNECTIONS,
    "bytes of an HTTP request": endpoint.MAX_REQUEST_BYTES,
    "time until an HTTP request is complete (s)": endpoint.REQUEST_S,
    "time until an HTTP response is read (s)": endpoint.RESPONSE_S,
    "characters of a group id in metrics": group_lag.MAX_LABEL_CHARS,
    "look-ups of one scrape": unread_ages.READS_PER_SCRAPE,
    "topics and partitions of a classic member's subscription that the broker reads": subscriptions.MAX_VALUES,
    "members and partitions of a consumer or share group whose target is computed in one turn": target.MAX_AT_ONCE,
    "states of partitions that one share group asks the share coordinator for at the same time": state_work.AT_ONCE,
    "batches of one share state": share_machine.MAX_BATCHES,
    "regular expression of a consumer group (characters)": regexes.MAX_REGEX_LENGTH,
}


def rows() -> list[list[str]]:
    text = PAGE.read_text().partition("<!-- limits -->")[2].partition("<!-- /limits -->")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ") and "| Default |" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_row_has_the_bound_of_the_code() -> None:
    for what, default, config, error in rows():
        row = BROKER_CONFIGS[config.split("`")[1]] if config else None
        assert int(default) == (row.default if row else FIXED[what]), what
        assert error, what


def test_every_bound_has_a_row() -> None:
    assert {row[0] for row in rows() if not row[2]} == FIXED.keys()
