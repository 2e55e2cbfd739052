"""A backup in S3, by moto's server: made, checked and restored over HTTP, and what is told where that fails."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.storage import backup as backups
from odradek.tests.cli.test_backup import values
from odradek.tests.support.documents.command import run, threaded_broker

pytest.importorskip("obstore", reason="the extra `objects` is not installed")

URL = "s3://bucket/monday"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A server with a bucket; the environment names it, and credentials."""
    # It imports hundreds of modules, which no other test needs.
    moto = pytest.importorskip("moto.server", reason="moto's server is not installed (moto[server,s3])")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    ask(endpoint, "/moto-api/reset", "POST")
    ask(endpoint, "/bucket", "PUT")
    yield endpoint
    server.stop()


def ask(endpoint: str, path: str, method: str = "GET") -> str:
    signed = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
    request = urllib.request.Request(endpoint + path, method=method, headers={"Authorization": signed})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A data directory of a stopped broker, with 100 records and a log of several parts of an upload."""
    from confluent_kafka import Producer

    with threaded_broker(tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(100):
            producer.produce("kept", b"%d" % number)
        for _ in range(24):
            producer.produce("large", os.urandom(500_000))
        assert producer.flush(30) == 0
    return tmp_path / "data"


def test_a_running_broker_is_backed_up_checked_and_restored(s3: str, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    with threaded_broker(tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(100):
            producer.produce("kept", b"%d" % number)
        assert producer.flush(30) == 0
        made = run("backup", "-b", broker.address, URL)
        assert made.exit_code == 0 and f"to {URL}" in made.stderr, made.stderr
    again = run("backup", tmp_path / "data", URL)
    assert again.exit_code == 1 and "give the backup a directory of its own" in again.stderr
    sound = run("log", "verify", URL)
    assert sound.exit_code == 0 and "no damage found" in sound.stderr, sound.stderr
    assert run("restore", URL, tmp_path / "new").exit_code == 0
    with threaded_broker(tmp_path / "new") as broker:
        assert values(broker.address, 100) == [b"%d" % number for number in range(100)]


def test_a_large_segment_goes_in_parts_and_comes_back(s3: str, source: Path, tmp_path: Path) -> None:
    assert run("backup", source, URL).exit_code == 0
    assert run("log", "verify", URL).exit_code == 0
    assert run("restore", URL, tmp_path / "new").exit_code == 0
    (log,) = source.glob("large-0/*.log")
    assert log.stat().st_size > 10_000_000
    assert (tmp_path / "new" / "large-0" / log.name).read_bytes() == log.read_bytes()


def test_an_upload_that_dies_in_the_middle_is_no_backup(
    s3: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(backups._Sums):
        def __init__(self, progress: object) -> None:
            super().__init__(self._count)

        def _count(self, size: int) -> None:
            if self.size > 6_000_000:
                raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(backups, "_Sums", Dying)
        died = run("backup", source, URL)
    assert died.exit_code == 1 and "Traceback" not in died.stderr, died.stderr
    # The parts of the file that was not finished are given up, so that nobody pays for them.
    assert "<Upload>" not in ask(s3, "/bucket?uploads")
    refused = run("restore", URL, tmp_path / "new")
    assert refused.exit_code == 1 and "no whole backup" in refused.stderr and not (tmp_path / "new").exists()
    again = run("backup", source, URL)
    assert again.exit_code == 1 and "delete it if it was one" in again.stderr
    assert run("backup", source, "s3://bucket/tuesday").exit_code == 0


def test_a_store_that_goes_away_in_the_middle_leaves_no_backup(
    s3: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from werkzeug.serving import WSGIRequestHandler

    with monkeypatch.context() as patch:

        class Leaving(backups._Sums):
            def __init__(self, progress: object) -> None:
                super().__init__(self._count)

            def _count(self, size: int) -> None:
                if self.size > 6_000_000:  # from then on it closes each connection
                    patch.setattr(WSGIRequestHandler, "handle", lambda handler: None)

        patch.setattr(backups, "_Sums", Leaving)
        left = run("backup", source, URL)
    assert left.exit_code == 1 and "check the address (AWS_ENDPOINT_URL, AWS_REGION)" in left.stderr, left.stderr
    refused = run("restore", URL, tmp_path / "new")
    assert refused.exit_code == 1 and "no whole backup" in refused.stderr and not (tmp_path / "new").exists()


def test_credentials_come_from_the_files_of_aws(
    s3: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(each)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[work]\naws_access_key_id = key\naws_secret_access_key = a%b\n")
    (tmp_path / ".aws" / "config").write_text(f"[profile work]\nregion = us-east-1\nendpoint_url = {s3}\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert run("backup", source, URL).exit_code == 0
    monkeypatch.setenv("AWS_PROFILE", "home")
    missing = run("backup", source, "s3://bucket/other")
    assert missing.exit_code == 1 and "there is no profile 'home'" in missing.stderr
    (tmp_path / ".aws" / "config").write_text("[profile home]\nsso_session = x\n")
    fetched = run("backup", source, "s3://bucket/other")
    assert fetched.exit_code == 1 and "aws configure export-credentials" in fetched.stderr


def test_what_goes_wrong_says_what_to_do(s3: str, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = run("backup", source, "s3://absent/x")
    assert absent.exit_code == 1 and "make the bucket first" in absent.stderr, absent.stderr
    for name in ("restore", "log verify"):
        empty = run(*name.split(), "s3://bucket/nothing", *([source / "new"] if name == "restore" else []))
        assert empty.exit_code == 1 and "no whole backup" in empty.stderr, empty.stderr
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    away = run("backup", source, "s3://bucket/x")
    assert away.exit_code == 1 and "check the address (AWS_ENDPOINT_URL, AWS_REGION)" in away.stderr, away.stderr
