"""Backup and restore: what comes back is what was there, and nothing half appears."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import threading
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from odradek.cli.notices import Progress
from odradek.client import Admin
from odradek.client.admin import brokers
from odradek.client.admin.brokers import HeldFiles
from odradek.protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest
from odradek.storage import backup as backups
from odradek.storage import system_calls
from odradek.storage.backup import MANIFEST, BackupError
from odradek.tests.support.documents.command import run, threaded_broker


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of a stopped broker, with a topic of 100 records."""
    with threaded_broker(tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(100):
            producer.produce("kept", b"%d" % number)
        assert producer.flush(10) == 0
    return tmp_path / "data"


def values(address: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition("kept", 0, 0)])
    found = [message.value() for message in consumer.consume(count, timeout=15)]
    consumer.close()
    return found


def test_a_restored_broker_has_what_the_old_one_had(data: Path, tmp_path: Path) -> None:
    made = run("backup", data, tmp_path / "backup")
    assert made.exit_code == 0 and "files" in made.stderr, made.stderr
    assert not (tmp_path / "backup" / "0" / ".lock").exists()
    assert run("restore", tmp_path / "backup", tmp_path / "new").exit_code == 0
    with threaded_broker(tmp_path / "new") as broker:
        assert values(broker.address, 100) == [b"%d" % number for number in range(100)]
    again = run("restore", tmp_path / "backup", tmp_path / "new")
    assert again.exit_code == 1 and "not empty" in again.stderr


def test_the_data_of_a_running_broker_are_refused(tmp_path: Path) -> None:
    with threaded_broker(tmp_path / "data"):
        ended = run("backup", tmp_path / "data", tmp_path / "backup")
    assert ended.exit_code == 1 and "stop the broker first" in ended.stderr
    assert not (tmp_path / "backup").exists()


def test_several_data_directories_go_and_come_together(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text("version=1\n")
    assert run("backup", data, other, tmp_path / "backup").exit_code == 0
    wrong = run("restore", tmp_path / "backup", tmp_path / "one")
    assert wrong.exit_code == 1 and "has 2 data directories, not 1" in wrong.stderr
    assert run("restore", tmp_path / "backup", tmp_path / "one", tmp_path / "two").exit_code == 0
    assert (tmp_path / "two" / "meta.properties").read_text() == "version=1\n"


def test_several_data_directories_that_cannot_all_be_made_are_none(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text("version=1\n")
    assert run("backup", data, other, tmp_path / "backup").exit_code == 0
    rename = Path.rename

    def fail_for_two(path: Path, target: Path) -> Path:
        if target.name == "two":
            raise OSError(5, "Input/output error", str(target))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_for_two)
    ended = run("restore", tmp_path / "backup", tmp_path / "one", tmp_path / "two")
    assert ended.exit_code == 1 and "Input/output error" in ended.stderr
    assert not (tmp_path / "one").exists() and not (tmp_path / "two").exists()


def test_a_target_of_a_restore_may_be_the_present_directory_or_a_link(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("backup", data, tmp_path / "backup").exit_code == 0
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "here")
    for target in (Path(), tmp_path / "link"):
        restored = run("restore", tmp_path / "backup", target)
        assert restored.exit_code == 0, restored.stderr
    assert (tmp_path / "here" / "kept-0").is_dir() and (tmp_path / "there" / "kept-0").is_dir()


def test_targets_that_no_rename_can_fill_are_refused_before_the_copy(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text("version=1\n")
    assert run("backup", data, other, tmp_path / "backup").exit_code == 0
    for second in ("one", "one/two"):
        ended = run("restore", tmp_path / "backup", tmp_path / "one", tmp_path / second)
        assert ended.exit_code == 1 and "give each data directory its own" in ended.stderr
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "one")
    ended = run("restore", tmp_path / "backup", tmp_path / "one", tmp_path / "two")
    assert ended.exit_code == 1 and "is a mount point" in ended.stderr
    assert not list(tmp_path.glob("one*")) and not list(tmp_path.glob("two*"))


def test_an_incomplete_backup_is_recognized(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    def stop(size: int) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        backups.back_up([data], tmp_path / "backup", stop)
    ended = run("restore", tmp_path / "backup", tmp_path / "new")
    assert ended.exit_code == 1 and "no whole backup" in ended.stderr
    again = run("backup", data, tmp_path / "backup")
    assert again.exit_code == 1 and "is not empty, and no whole backup" in again.stderr


def test_a_damaged_backup_makes_no_data_directory(data: Path, tmp_path: Path) -> None:
    assert run("backup", data, tmp_path / "backup").exit_code == 0
    log = next((tmp_path / "backup").rglob("kept-0/*.log"))
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    ended = run("restore", tmp_path / "backup", tmp_path / "new")
    assert ended.exit_code == 1 and "is damaged" in ended.stderr and str(log) in ended.stderr
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob("*.restoring"))


def test_damaged_data_are_backed_up_and_named(data: Path, tmp_path: Path) -> None:
    log = next(data.glob("kept-0/*.log"))
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    ended = run("backup", data, tmp_path / "backup")
    assert ended.exit_code == 1 and "damaged: see above" in ended.stderr and "kept-0" in ended.stderr
    assert (tmp_path / "backup" / MANIFEST).exists()


def test_damaged_recovery_points_are_named_and_hide_no_other_damage(data: Path, tmp_path: Path) -> None:
    (data / "recovery-point-offset-checkpoint").write_text("0\nmany\n")
    log = next(data.glob("kept-0/*.log"))
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    ended = run("backup", data, tmp_path / "backup")
    assert ended.exit_code == 1 and "damaged: see above" in ended.stderr, ended.stderr
    assert "recovery-point-offset-checkpoint" in ended.stderr and "kept-0" in ended.stderr
    assert "files, " in ended.stderr


def test_an_interrupted_restore_leaves_nothing_and_can_be_repeated(data: Path, tmp_path: Path) -> None:
    backups.back_up([data], tmp_path / "backup", lambda size: None)

    def stop(size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backups.restore(tmp_path / "backup", [tmp_path / "new"], stop)
    assert not (tmp_path / "new").exists()
    (tmp_path / "new.restoring").mkdir()  # as a kill leaves it
    (tmp_path / "new").mkdir()
    assert backups.restore(tmp_path / "backup", [tmp_path / "new"], lambda size: None) > 3


def test_a_full_disk_is_told_as_what_it_is_and_a_restore_leaves_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    backups.back_up([data], tmp_path / "backup", lambda size: None)
    monkeypatch.setattr(system_calls, "fsync", full)
    for command in (["restore", tmp_path / "backup"], ["backup", data]):
        ended = run(*command, tmp_path / "new")
        assert ended.exit_code == 1 and ended.stderr.startswith(f"odradek: write {tmp_path}/new"), ended.stderr
        assert ended.stderr.endswith(": No space left on device\n")
        assert (tmp_path / "new").exists() is (command[0] == "backup") and not (tmp_path / "new" / MANIFEST).exists()


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("{", "is damaged"),
        ('{"format": 2, "directories": 1, "files": []}', "format 2 was written by a newer Odradek; this one reads 1"),
        ('{"format": 1, "directories": 1, "files": [["0/../../x", 1, 1]]}', "no file of a data directory"),
        ('{"format": 1, "directories": 1, "files": [["0//etc/x", 1, 1]]}', "no file of a data directory"),
        ('{"format": 1, "directories": "one", "files": [["0/x", 1, 1]]}', "is damaged"),
        ('{"format": 1, "directories": 1, "files": [["1/x", 1, 1]]}', "no file of a data directory"),
    ],
)
def test_a_manifest_that_cannot_be_is_an_error(tmp_path: Path, manifest: str, words: str) -> None:
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(BackupError, match=words):
        backups.read_manifest(tmp_path)


def test_a_target_in_the_data_and_no_data_directory_are_refused(data: Path, tmp_path: Path) -> None:
    assert "lies in the data directory" in run("backup", data, data / "backup").stderr
    assert "no data directory" in run("backup", tmp_path, tmp_path / "backup").stderr
    full = tmp_path / "full"
    full.mkdir()
    (full / MANIFEST).write_text(json.dumps({}))
    assert "exists; give the backup" in run("backup", data, full).stderr


def test_a_running_broker_is_copied_and_goes_on(tmp_path: Path) -> None:
    with threaded_broker(tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("kept", b"before")
        assert producer.flush(10) == 0
        made = run("backup", "-b", broker.address, tmp_path / "backup")
        assert made.exit_code == 0 and "files" in made.stderr, made.stderr
        producer.produce("kept", b"after")
        assert producer.flush(10) == 0
    assert run("restore", tmp_path / "backup", tmp_path / "new").exit_code == 0
    with threaded_broker(tmp_path / "new") as broker:
        assert values(broker.address, 1) == [b"before"]


def test_an_interrupted_copy_of_a_running_broker_ends_with_its_next_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back, chunks = threading.Event(), list[int]()
    end = Admin.renew_backup

    async def renew_backup(self: Admin, held: HeldFiles, *, is_end: bool = False) -> None:
        await end(self, held, is_end=is_end)
        given_back.set()

    def interrupt(self: Progress, size: int) -> None:
        chunks.append(size)
        os.kill(os.getpid(), signal.SIGINT)
        assert given_back.wait(20)

    monkeypatch.setattr(backups, "CHUNK_BYTES", 1)
    monkeypatch.setattr(Admin, "renew_backup", renew_backup)
    monkeypatch.setattr(Progress, "add", interrupt)
    with threaded_broker(tmp_path / "data") as broker:
        assert run("backup", "-b", broker.address, tmp_path / "backup").exit_code == 130
    assert len(chunks) == 1


def test_a_copy_stays_whole_where_the_broker_has_ended_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with threaded_broker(tmp_path / "data") as broker:
        other = partial(OdradekRenewLeaseRequest, is_end=True)
        monkeypatch.setattr(brokers, "OdradekRenewLeaseRequest", lambda lease_id, is_end: other(lease_id ^ 1))
        made = run("backup", "-b", broker.address, tmp_path / "backup")
    assert made.exit_code == 0 and "files" in made.stderr, made.stderr


def test_a_backup_on_another_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with threaded_broker(tmp_path / "data") as broker:
        monkeypatch.setattr(brokers, "Path", lambda name: Path(f"/elsewhere{name}"))
        ended = run("backup", "-b", broker.address, tmp_path / "backup")
    assert ended.exit_code == 1 and "run this on the broker's machine" in ended.stderr
    assert not list((tmp_path / "data").glob("backup.*"))


def test_a_backup_in_an_object_store_is_verified_and_restored(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("obstore", reason="the extra `objects` is not installed")
    store = tmp_path / "store"
    store.mkdir()
    url = f"file://{store}"
    assert run("backup", data, url).exit_code == 0
    again = run("backup", data, url)
    assert again.exit_code == 1 and "give the backup a directory of its own" in again.stderr
    sound = run("log", "verify", url)
    assert sound.exit_code == 0 and "no damage found" in sound.stderr, sound.stderr
    assert run("restore", url, tmp_path / "new").exit_code == 0
    with threaded_broker(tmp_path / "new") as broker:
        assert len(values(broker.address, 100)) == 100
    log = next(store.rglob("kept-0/*.log"))
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    for place in (url, store):  # the store is a directory here
        found = run("log", "verify", place)
        assert found.exit_code == 1 and "1 problem found" in found.stderr and "kept-0" in found.stdout
    refused = run("restore", url, tmp_path / "other")
    assert refused.exit_code == 1 and "is damaged" in refused.stderr and not (tmp_path / "other").exists()


@pytest.mark.parametrize("url", ["nope://bucket/x", "s3://"])
def test_a_store_that_is_none_is_told(data: Path, url: str) -> None:
    pytest.importorskip("obstore", reason="the extra `objects` is not installed")
    ended = run("backup", data, url)
    assert ended.exit_code == 1 and url.rstrip("/") in ended.stderr and "Traceback" not in ended.stderr


def modes_of(directory: Path) -> dict[str, int]:
    return {path.relative_to(directory).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*")}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_was_private_is_private_in_the_backup_and_after_a_restore(data: Path, tmp_path: Path, scheme: str) -> None:
    data.chmod(0o700)
    (data / "kept-0").chmod(0o750)
    next(data.glob("kept-0/*.log")).chmod(0o640)
    (data / ".lock").unlink()
    before = modes_of(data)
    (journal,) = (path for path in data.rglob("*.journal"))
    assert before[journal.relative_to(data).as_posix()] == 0o600
    if scheme:
        pytest.importorskip("obstore")
        (tmp_path / "backup").mkdir()
    target = f"{scheme}{tmp_path / 'backup'}"
    assert run("backup", data, target).exit_code == 0
    if not scheme:
        assert stat.S_IMODE((tmp_path / "backup" / "0").stat().st_mode) == 0o700
        assert modes_of(tmp_path / "backup" / "0") == before
    assert run("restore", target, tmp_path / "new").exit_code == 0
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert modes_of(tmp_path / "new") == before


def test_a_restore_of_an_older_backup_lets_others_read_no_more_than_they_could(data: Path, tmp_path: Path) -> None:
    backups.back_up([data], tmp_path / "backup", lambda size: None)
    manifest = json.loads((tmp_path / "backup" / MANIFEST).read_text())
    for name in ("modes", "left_out"):
        del manifest[name]
    (tmp_path / "backup" / MANIFEST).write_text(json.dumps(manifest))
    assert run("restore", tmp_path / "backup", tmp_path / "new").exit_code == 0
    (journal,) = (tmp_path / "new").rglob("*.journal")
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_partition_behind_a_symbolic_link_is_backed_up(data: Path, tmp_path: Path) -> None:
    (data / "kept-0").rename(tmp_path / "elsewhere")
    (data / "kept-0").symlink_to(tmp_path / "elsewhere")
    assert run("backup", data, tmp_path / "backup").exit_code == 0
    assert list((tmp_path / "backup" / "0" / "kept-0").glob("*.log"))
    assert run("restore", tmp_path / "backup", tmp_path / "new").exit_code == 0
    with threaded_broker(tmp_path / "new") as broker:
        assert values(broker.address, 100) == [b"%d" % number for number in range(100)]


def test_a_link_to_what_is_copied_already_is_an_error_and_not_endless(data: Path, tmp_path: Path) -> None:
    (data / "loop").symlink_to(data)
    ended = run("backup", data, tmp_path / "backup")
    assert ended.exit_code == 1 and "is in the backup already" in ended.stderr
    assert not (tmp_path / "backup" / MANIFEST).exists()


def test_a_backup_without_a_file_that_the_broker_would_load_is_not_whole(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked = backups._files
    monkeypatch.setattr(backups, "_files", lambda each: (path for path in walked(each) if path.parent.name != "kept-0"))
    ended = run("backup", data, tmp_path / "backup")
    assert ended.exit_code == 1 and "that the broker would load were not copied" in ended.stderr
    assert not (tmp_path / "backup" / MANIFEST).exists()


def test_a_directory_of_the_user_is_never_removed(data: Path, tmp_path: Path) -> None:
    backups.back_up([data], tmp_path / "backup", lambda size: None)
    mine = tmp_path / "x.restoring" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    ended = run("restore", tmp_path / "backup", tmp_path / "x")
    assert ended.exit_code == 1 and f"{mine.parent} is there, and no restore has left it" in ended.stderr
    assert mine.read_text() == "mine" and not (tmp_path / "x").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_restore_follows_no_link_of_the_user(data: Path, tmp_path: Path, is_there: bool) -> None:
    backups.back_up([data], tmp_path / "backup", lambda size: None)
    if is_there:
        (tmp_path / "mine").mkdir()
    (tmp_path / "x.restoring").symlink_to(tmp_path / "mine")
    ended = run("restore", tmp_path / "backup", tmp_path / "x")
    assert ended.exit_code == 1 and "x.restoring is there, and no restore has left it" in ended.stderr
    assert not (tmp_path / "x").exists() and (tmp_path / "x.restoring").is_symlink()
    assert not (is_there and any((tmp_path / "mine").iterdir()))


def test_what_a_kill_has_left_of_a_restore_is_removed_by_the_next(data: Path, tmp_path: Path) -> None:
    backups.back_up([data], tmp_path / "backup", lambda size: None)
    left: list[Path] = []

    def look(size: int) -> None:
        if not left:
            shutil.copytree(tmp_path / "new.restoring", tmp_path / "left")
            left.append(tmp_path / "left")

    backups.restore(tmp_path / "backup", [tmp_path / "new"], look)
    left[0].rename(tmp_path / "other.restoring")
    assert run("restore", tmp_path / "backup", tmp_path / "other").exit_code == 0
    assert modes_of(tmp_path / "other") == modes_of(tmp_path / "new")
    assert not list((tmp_path / "other").glob(".odradek*"))


def test_the_keys_of_a_secure_start_are_told_to_be_missing(data: Path, tmp_path: Path) -> None:
    (tmp_path / "data.secure").mkdir()
    made = run("backup", data, tmp_path / "backup")
    assert made.exit_code == 0 and "data.secure is not in the backup" in made.stderr
    restored = run("restore", tmp_path / "backup", tmp_path / "new")
    assert restored.exit_code == 0 and "data.secure was not in the backup" in restored.stderr
