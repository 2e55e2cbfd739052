"""The metadata of the broker: cluster id, topics, dynamic configs, features, users, producer ids, leader epoch.

They are a small state that changes by records in a journal (`storage.journal`). A change is appended and forced to disk
first, then applied; a start applies the same records in the same order. Every `SNAPSHOT_RECORDS` records the state is
written as a snapshot, so that the journal stays short.

A record is a dict with a `type`:

    cluster          id, directories (id -> path)        the data directories of this broker
    topic            name, id, partitions, configs       creates a topic or replaces its record
                     hosted                              in a cluster: the partitions that this broker has
    topic_deleted    name
    producer_ids     next
    leader_epoch     epoch
    broker_configs   node, configs                       dynamic configs of a node, or of all where `node` is ""
    group_configs    group, configs                      the configs that a consumer group has of its own
    features         epoch, levels                       levels of the features that were changed
    scram            user, mechanism, salt, stored_key,  what is kept of a user's password
                     server_key, iterations
    scram_deleted    user, mechanism
    acls             added, removed                      ACLs, each a list of its fields (security/acls.py)
    quotas           entity, values                      all quotas of an entity, a list (quotas/entities.py)
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...storage.errors import StorageError
from ...storage.files import DISK, Disk
from ...storage.journal import Journal, JournalEnd
from ..clock import ids
from ..log_dirs.data_dir import JOURNAL_NAME
from ..quotas.client_quotas import Change
from ..quotas.entities import Entity
from ..security.acls import Acl

if TYPE_CHECKING:
    # A broker without passwords needs no SASL.
    from ..security.sasl.scram import Credential

# The journal is read at every start: a thousand records are read in a few milliseconds.
SNAPSHOT_RECORDS = 1000
# As in Kafka, producer ids come from blocks, so that not each costs a write. A crash wastes the rest of a block.
PRODUCER_ID_BLOCK = 1000

JournalRecord = dict[str, Any]
K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TopicRecord:
    """A topic in the journal. `configs` holds only what was set for this topic."""

    name: str
    id: bytes
    partitions: int
    configs: dict[str, str] = field(default_factory=dict[str, str])
    # The indexes of the partitions that this broker holds; None: all of them.
    hosted: frozenset[int] | None = None

    @property
    def held(self) -> Collection[int]:
        """The indexes of the partitions whose logs are here."""
        return range(self.partitions) if self.hosted is None else self.hosted


class Metadata:
    """The state and its journal. The constructor replays the journal."""

    def __init__(self, directory: Path, disk: Disk = DISK) -> None:
        self.cluster_id = ""
        # By which users that there are not get salts (security/sasl/scram.py); empty after an earlier version.
        self.stranger_secret = b""
        # The path of each data directory by its id, as the last start found them; empty after an earlier version.
        self.directories: dict[str, str] = {}
        self.leader_epoch = 0
        self.topics: dict[str, TopicRecord] = {}
        # By node ("" for every node): config name -> text. A node without dynamic configs has no entry.
        self.broker_configs: dict[str, dict[str, str]] = {}
        # By group: config name -> text. A group without configs of its own has no entry.
        self.group_configs: dict[str, dict[str, str]] = {}
        # Feature -> level, of the features that were ever changed. The epoch counts the changes.
        self.features: dict[str, int] = {}
        self.features_epoch = 0
        # By user and mechanism. A user without a password has no entry.
        self.scram: dict[str, dict[str, Credential]] = {}
        # A dict for its order.
        self.acls: dict[Acl, None] = {}
        # By entity: key -> value. An entity without a quota has no entry.
        self.quotas: dict[Entity, dict[str, float]] = {}
        self._next_producer_id = 0
        # The first producer id that this data directory has given to nobody for certain.
        self.producer_id_limit = 0
        self._journal = Journal.open(directory, JOURNAL_NAME, disk)
        self._since_snapshot = 0
        for record in self._journal.records:
            self._apply(record)
        self._next_producer_id = self.producer_id_limit

    @property
    def end_offset(self) -> int:
        """Where the journal ends, as a number that grows with each change."""
        generation, size = self._journal.end
        return (generation << 32) + size

    def set_cluster_id(self, cluster_id: str) -> None:
        """Give a new data directory its cluster id, and a secret."""
        self._commit(self._cluster_record(cluster_id, self.directories, self.stranger_secret or new_secret()))

    def set_stranger_secret(self, secret: bytes) -> None:
        """Keep the secret by which users that there are not get salts."""
        if secret != self.stranger_secret:
            self._commit(self._cluster_record(self.cluster_id, self.directories, secret))

    def note_directories(self, directories: dict[str, str]) -> None:
        """Note the ids and paths of the data directories, if they have changed."""
        if directories != self.directories:
            self._commit(self._cluster_record(self.cluster_id, directories, self.stranger_secret))

    def raise_leader_epoch(self) -> None:
        """Begin a new leader epoch, so that clients notice if a crash lost records that they had seen (KIP-320)."""
        self._commit({"type": "leader_epoch", "epoch": self.leader_epoch + 1})

    def pass_over(self, leader_epoch: int, producer_id: int) -> None:
        """Give out no epoch and no id up to these, which logs know: imported ones, or later ones than the journal."""
        if leader_epoch > self.leader_epoch:
            self._commit({"type": "leader_epoch", "epoch": leader_epoch})
        if producer_id >= self.producer_id_limit:
            self._commit({"type": "producer_ids", "next": producer_id + 1})
            self._next_producer_id = self.producer_id_limit

    def put_topic(self, topic: TopicRecord) -> None:
        """Create a topic, or replace its record."""
        self._commit(_topic_record(topic))

    def delete_topic(self, name: str) -> None:
        """Delete a topic; the caller removes its files."""
        self._commit({"type": "topic_deleted", "name": name})

    def put_topics(self, topics: Iterable[TopicRecord], deleted: Iterable[str] = ()) -> None:
        """Create or replace many topics, and delete others, with one write to the disk."""
        self._commit(*({"type": "topic_deleted", "name": name} for name in deleted), *map(_topic_record, topics))

    def put_broker_configs(self, node: str, configs: dict[str, str]) -> None:
        """Replace the dynamic configs of a node (its number), or of all of them ("")."""
        self._commit({"type": "broker_configs", "node": node, "configs": configs})

    def put_group_configs(self, group: str, configs: dict[str, str]) -> None:
        """Replace the configs that a consumer group has of its own."""
        self._commit({"type": "group_configs", "group": group, "configs": configs})

    def put_features(self, levels: dict[str, int]) -> None:
        """Replace the levels of features."""
        self._commit({"type": "features", "epoch": self.features_epoch + 1, "levels": levels})

    def put_scram(self, changes: Iterable[tuple[str, str, Credential | None]]) -> None:
        """Set or delete (None) what is kept of passwords, by user and mechanism, with one write to the disk."""
        self._commit(*(_scram_record(*change) for change in changes))

    def change_acls(self, added: Iterable[Acl], removed: Iterable[Acl] = ()) -> None:
        """Remove ACLs, then add others."""
        self._commit(_acls_record(added, removed))

    def put_quotas(self, changes: Iterable[Change]) -> None:
        """Replace all quotas of these entities, with one write to the disk."""
        self._commit(*(_quotas_record(*change) for change in changes))

    def new_producer_id(self) -> int:
        """Return an id that this data directory has never given out, restarts and crashes included."""
        if self._next_producer_id >= self.producer_id_limit:
            self._commit({"type": "producer_ids", "next": self._next_producer_id + PRODUCER_ID_BLOCK})
        self._next_producer_id += 1
        return self._next_producer_id - 1

    @property
    def journal_end(self) -> JournalEnd:
        """Where the journal ends, for the next start after a clean stop."""
        return self._journal.end

    @property
    def journal_files(self) -> list[Path]:
        """The present files of the journal. Only the last one grows."""
        return [self._journal.directory / name for name in self._journal.file_names]

    def close(self) -> None:
        """Close the journal; everything in it is on disk already."""
        self._journal.close()

    def _commit(self, *records: JournalRecord) -> None:
        if not records:
            return
        self._journal.append(list(records))
        for record in records:
            self._apply(record)
        self._since_snapshot += len(records)
        if self._since_snapshot >= SNAPSHOT_RECORDS:
            self._since_snapshot = 0
            self._snapshot()

    def _snapshot(self) -> None:
        try:
            self._journal.snapshot(self._state())
        except StorageError as error:
            # The change itself is on disk, so it is applied. Only the journal stays long.
            _log.error("the metadata journal could not be made shorter: %s", error.message)

    def _apply(self, record: JournalRecord) -> None:
        match record["type"]:
            case "cluster":
                self.cluster_id = str(record["id"])
                self.stranger_secret = bytes(record.get("secret", b""))
                self.directories = dict(cast("dict[str, str]", record.get("directories", {})))
            case "leader_epoch":
                self.leader_epoch = int(record["epoch"])
            case "producer_ids":
                self.producer_id_limit = int(record["next"])
            case "topic":
                configs = cast("dict[str, str]", record["configs"])
                hosted = cast("list[int] | None", record.get("hosted"))
                topic = TopicRecord(
                    str(record["name"]),
                    bytes(record["id"]),
                    int(record["partitions"]),
                    dict(configs),
                    None if hosted is None else frozenset(hosted),
                )
                self.topics[topic.name] = topic
            case "topic_deleted":
                self.topics.pop(str(record["name"]), None)
            case "broker_configs":
                _replace(self.broker_configs, str(record["node"]), record["configs"])
            case "group_configs":
                _replace(self.group_configs, str(record["group"]), record["configs"])
            case "features":
                self.features_epoch = int(record["epoch"])
                self.features = dict(cast("dict[str, int]", record["levels"]))
            case "scram" | "scram_deleted":
                self._apply_scram(record)
            case "acls":
                for acl in cast("list[list[Any]]", record["removed"]):
                    self.acls.pop(Acl(*acl), None)
                self.acls.update(dict.fromkeys(Acl(*acl) for acl in cast("list[list[Any]]", record["added"])))
            case "quotas":
                _replace(self.quotas, Entity(*cast("list[str | None]", record["entity"])), record["values"])
            case other:
                raise UnknownMetadata(
                    f"the metadata journal has a record of type {other!r}, which a newer Odradek wrote"
                )

    def _apply_scram(self, record: JournalRecord) -> None:
        user, mechanism = str(record["user"]), str(record["mechanism"])
        if record["type"] == "scram":
            from ..security.sasl.scram import Credential

            salt, stored_key, server_key = (bytes(record[each]) for each in ("salt", "stored_key", "server_key"))
            kept = Credential(salt, stored_key, server_key, int(record["iterations"]))
            self.scram.setdefault(user, {})[mechanism] = kept
            return
        self.scram.get(user, {}).pop(mechanism, None)
        if not self.scram.get(user, {}):
            self.scram.pop(user, None)

    @staticmethod
    def _cluster_record(cluster_id: str, directories: dict[str, str], secret: bytes) -> JournalRecord:
        return {"type": "cluster", "id": cluster_id, "directories": directories, "secret": secret}

    def _state(self) -> list[JournalRecord]:
        """Return the records that lead from nothing to the present state."""
        return [
            self._cluster_record(self.cluster_id, self.directories, self.stranger_secret),
            {"type": "leader_epoch", "epoch": self.leader_epoch},
            {"type": "producer_ids", "next": self.producer_id_limit},
            *(
                {"type": "broker_configs", "node": node, "configs": configs}
                for node, configs in self.broker_configs.items()
            ),
            *(
                {"type": "group_configs", "group": group, "configs": configs}
                for group, configs in self.group_configs.items()
            ),
            *(
                [{"type": "features", "epoch": self.features_epoch, "levels": self.features}]
                if self.features_epoch
                else []
            ),
            *(_scram_record(user, *each) for user, kept in self.scram.items() for each in kept.items()),
            *([_acls_record(self.acls)] if self.acls else []),
            *(_quotas_record(*each) for each in self.quotas.items()),
            *(_topic_record(topic) for topic in self.topics.values()),
        ]


class UnknownMetadata(Exception):
    """The journal has a record that this version does not know. The broker refuses to start rather than guess."""


def _replace(kept: dict[K, dict[str, V]], key: K, values: dict[str, V]) -> None:
    """Replace what is kept under a key, last of all. Nothing is kept of an empty value."""
    kept.pop(key, None)
    if values:
        kept[key] = dict(values)


def new_secret() -> bytes:
    """Return a secret by which users that there are not get salts (security/sasl/scram.py)."""
    return ids().randbytes(32)


def _scram_record(user: str, mechanism: str, credential: Credential | None) -> JournalRecord:
    if credential is None:
        return {"type": "scram_deleted", "user": user, "mechanism": mechanism}
    return {"type": "scram", "user": user, "mechanism": mechanism, **credential._asdict()}


def _acls_record(added: Iterable[Acl], removed: Iterable[Acl] = ()) -> JournalRecord:
    return {"type": "acls", "added": [list(acl) for acl in added], "removed": [list(acl) for acl in removed]}


def _quotas_record(entity: Entity, values: Mapping[str, float]) -> JournalRecord:
    return {"type": "quotas", "entity": list(entity), "values": dict(values)}


def _topic_record(topic: TopicRecord) -> JournalRecord:
    return {
        "type": "topic",
        "name": topic.name,
        "id": topic.id,
        "partitions": topic.partitions,
        "configs": topic.configs,
        **({} if topic.hosted is None else {"hosted": sorted(topic.hosted)}),
    }
