"""The import of another broker's topics into a data directory that no broker uses (`odradek log import`).

The order makes a crash harmless. Copies have names that a start removes. They get their own names when all exist, but
belong to no topic yet, so that a start would set them aside. The journal gets the topics last.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ...protocol.errors import KafkaError
from ...protocol.primitives import ZERO_UUID
from ...storage import checkpoints
from ...storage.deleted_directory import remove_directory
from ...storage.integrity import segment_files
from ...storage.partition_import import Imported, ImportRejected, finish, import_folder
from ..log_dirs.partition_dirs import partition_of
from .metadata_journal import TopicRecord
from .offline_directory import OfflineDirectory
from .topic_names import INTERNAL_TOPICS, MAX_PARTITIONS_PER_TOPIC, check_name, new_topic_id

# Internal topics: only the broker that wrote them can use them.
_INTERNAL_PREFIX = "__"


@dataclass(slots=True)
class Plan:
    """A topic to import, and the folders of its partitions by index."""

    name: str
    folders: dict[int, Path]
    log_starts: dict[int, int]
    configs: dict[str, str] = field(default_factory=dict[str, str])
    least_partitions: int = 0

    @property
    def partitions(self) -> int:
        """The number of partitions, by the highest index: those without a folder begin empty."""
        return max(*self.folders, self.least_partitions - 1) + 1

    @property
    def size_bytes(self) -> int:
        return sum(size for folder in self.folders.values() for _, _, size in segment_files(folder))


def plan(directories: Iterable[Path]) -> list[Plan]:
    """Return the topics in partitions' folders, or in whole data directories, by name. Raises ImportRejected."""
    plans: dict[str, Plan] = {}
    for folder in (each for directory in directories for each in _folders(directory)):
        named = partition_of(folder.name)
        if named is None or not segment_files(folder):
            raise ImportRejected(f"{folder} is no partition's folder: TOPIC-NUMBER with segments in it")
        topic, index = named
        check_name(topic)
        if topic in INTERNAL_TOPICS or topic.startswith(_INTERNAL_PREFIX):
            raise ImportRejected(f"{folder}: what is in {topic} belongs to the broker that wrote it")
        each = plans.setdefault(topic, Plan(topic, {}, {}))
        if index in each.folders:
            raise ImportRejected(f"{folder} and {each.folders[index]} are the same partition")
        if index >= MAX_PARTITIONS_PER_TOPIC:
            raise ImportRejected(f"{folder}: a topic has at most {MAX_PARTITIONS_PER_TOPIC} partitions")
        each.folders[index] = folder
        each.log_starts[index] = checkpoints.read_offsets(folder.absolute().parent / checkpoints.LOG_START).get(
            named, 0
        )
    return [plans[name] for name in sorted(plans)]


def check_apart(plans: Iterable[Plan], data_dir: Path) -> None:
    """Raise ImportRejected where a folder lies in the data directory that it would be imported into."""
    for each in plans:
        for folder in each.folders.values():
            if folder.resolve().parent == data_dir.resolve():
                why = f"{folder} lies in {data_dir}, the directory to import into"
                raise ImportRejected(f"{why}: nothing was changed; name another data directory with --data-dir")


def _folders(directory: Path) -> list[Path]:
    """Return the partitions of a data directory without internal topics; any other directory is a partition itself."""
    if not directory.is_dir():
        raise ImportRejected(f"{directory} is not a directory")
    if not (directory / checkpoints.META_PROPERTIES).exists():
        return [Path(directory.absolute())]
    found = (each for each in sorted(directory.absolute().iterdir()) if each.is_dir() and partition_of(each.name))
    return [each for each in found if not each.name.startswith(_INTERNAL_PREFIX) and segment_files(each)]


class Importer(OfflineDirectory):
    """A data directory that takes topics in."""

    def run(
        self, plans: list[Plan], now_ms: int, progress: Callable[[int], None], done: Callable[[Imported], None]
    ) -> None:
        """Import all topics or none. `progress` gets the bytes that were read, `done` each partition.

        Raises ImportRejected, and other KafkaErrors. Then it has changed nothing.
        """
        for each in plans:
            self._check(each)
        copies: list[tuple[Plan, int, Imported]] = []
        path = self.path
        try:
            for each in plans:
                for index, folder in sorted(each.folders.items()):
                    imported = import_folder(folder, path, each.log_starts[index], now_ms, progress, self.disk)
                    copies.append((each, index, imported))
                    done(imported)
        except KafkaError:
            for _, _, imported in copies:
                remove_directory(imported.copy, self.disk)
            raise
        self._take_in(plans, copies)

    def _check(self, plan: Plan) -> None:
        if plan.name in self.metadata.topics:
            raise ImportRejected(
                f"topic {plan.name} is there already: delete it first, or choose another data directory"
            )
        for index in range(plan.partitions):
            if self.disk.exists(target := self.path / f"{plan.name}-{index}"):
                raise ImportRejected(f"{target} is there already, of no topic: start the broker once, or remove it")

    def _forget_cleaner_offsets(self, path: Path, topics: Container[str]) -> None:
        """Forget the cleaner offsets of deleted topics with these names."""
        known = checkpoints.read_offsets(path, self.disk)
        kept = {(topic, index): offset for (topic, index), offset in known.items() if topic not in topics}
        if kept != known:
            checkpoints.write_offsets(path, kept, self.disk)

    def _take_in(self, plans: list[Plan], copies: list[tuple[Plan, int, Imported]]) -> None:
        """Name the copies, write their checkpoints, and last of all write the topics into the journal."""
        path = self.path
        ids = {each.name: self._topic_id(each) for each in plans}
        for plan_, index, imported in copies:
            finish(imported, path / f"{plan_.name}-{index}", ids[plan_.name], self.disk)
        self.disk.fsync_dir(path)
        for name, attribute in (
            (checkpoints.RECOVERY_POINT, "end_offset"),
            (checkpoints.LOG_START, "log_start_offset"),
        ):
            new = {(plan_.name, index): getattr(imported, attribute) for plan_, index, imported in copies}
            checkpoints.write_offsets(path / name, checkpoints.read_offsets(path / name, self.disk) | new, self.disk)
        self._forget_cleaner_offsets(path / checkpoints.CLEANER_OFFSET, ids)
        logs = [imported for _, _, imported in copies]
        self.metadata.pass_over(max(each.leader_epoch for each in logs), max(each.producer_id for each in logs))
        self.metadata.put_topics(
            TopicRecord(each.name, ids[each.name], each.partitions, each.configs) for each in plans
        )

    def _topic_id(self, plan: Plan) -> bytes:
        """Return the id that all folders agree on, if it is free; otherwise a new one."""
        named = {checkpoints.read_partition_metadata(folder, self.disk) for folder in plan.folders.values()}
        topic_id = (named.pop() if len(named) == 1 else None) or ZERO_UUID
        taken = {ZERO_UUID, *(each.id for each in self.metadata.topics.values())}
        return topic_id if topic_id not in taken else new_topic_id()
