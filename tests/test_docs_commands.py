"""Every command of the README and the documents is run against a broker, and does what the document says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.security_table import AUTHORIZERS
from odradek.testing import kafka
from odradek.tests import test_docs
from odradek.tests.support.brokers.process import FEW_PARTITIONS
from odradek.tests.support.documents.command import threaded_broker
from odradek.tests.support.documents.page import begin, python_of
from odradek.tests.support.documents.shell import Ended, run_here, run_line

ROOT = test_docs.ROOT
GOLDEN = Path(__file__).parent / "golden" / "kafka-4.3.1" / "data"
_ROW = re.compile(r"^\|.*\| (.*) \|$", re.MULTILINE)
_SPAN = re.compile(r"`(odradek [^`\n]+)`")
_BLOCK = re.compile(r"^```(\w*)\n((?:.*\n)*?)```|^((?: {4}.*\n)+)", re.MULTILINE)

# Words of documents that stand for the reader's own.
OWN = {
    "NAME=VALUE": "retention.ms=3600000",
    "dump F": "dump odradek-data/flights-0/00000000000000000000.log",
    "/var/lib/kafka": "kafka",
    "~/.local/share/": "",
    "~/.config/": "",
    "~/.zfunc/": "",
    "/backups/": "backups/",
    "--archive /archive": "--archive archive",
    "flights --records 1000000": "flights --records 10000",
    "perf produce t --records 1000000": "perf produce t --records 10000",
    "perf latency t": "perf latency t --records 100",
    "flights --records 10000 ": "flights --records 100 ",
}
# An absolute path in a document is somewhere else than in the folder of the tests.
OUTSIDE = re.compile(r"(?:^|[\s=])[/~]")
# Commands that do not end by themselves are tested where their subject is (test_serve.py, test_docker.py,
# test_archive.py).
SERVES = ("odradek serve", "odradek archive run")
# Commands that fail, as their document says, with the words of their error.
FAILS = {
    "odradek config set preallocate=true --topic flights": "preallocate",
    "odradek consume -t flights": "No such option",
    "printf PASSWORD | odradek users set broker --password-file - --config server.properties": "No such file",
    "odradek certs show broker-1.example:9093 --trust certs/ca.pem": "cannot reach broker-1.example:9093",
    "odradek groups describe workers --queue": "group 'workers' does not exist",
    "odradek transactions abort --topic flights:0 --start-offset 100": "nothing was aborted",
}
# Commands that print until they are stopped.
FOLLOWS = re.compile(r"odradek (consume (?!.*(--until-end|-e |-n |-c |--max ))|.* --watch)")


@dataclass(frozen=True)
class Directories:
    """A folder with a stopped broker's directory and a Kafka's, a running broker, and one of another cluster."""

    folder: Path
    broker: Broker
    other: Broker

    def run(self, line: str) -> Ended:
        for word, own in OWN.items():
            line = line.replace(word, own)
        line = re.sub(r"--to \S+", f"--to {self.other.address}", line)
        line = re.sub(r"\bHOST:PORT\b|\b127\.0\.0\.1:9092\b", self.broker.address, line)
        assert not OUTSIDE.search(line), f"{line}: OWN needs a place for this path"
        stdin = b"".join(b"%d:value\n" % number for number in range(20))
        return run_line(line, self.folder, stdin, reads_bytes=1 if FOLLOWS.match(line) else None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directories]:
    folder = tmp_path_factory.mktemp("documents")
    with threaded_broker(folder / "odradek-data") as broker:
        fill(broker, ("flights",))
    shutil.copytree(GOLDEN, folder / "kafka")
    (folder / "picture.png").write_bytes(b"a picture")
    for made in ("bash-completion/completions", "fish/completions", "man/man1"):
        (folder / made).mkdir(parents=True)
    dirs = (str(folder / "running"),)
    # ACLs are kept, and everybody may do everything.
    has_acls = {"authorizer_class_name": AUTHORIZERS[0], "super_users": "User:ANONYMOUS", **FEW_PARTITIONS}
    running = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=dirs, num_partitions=6, **has_acls)
    with Broker(running) as broker, threaded_broker(folder / "other") as other:
        yield Directories(folder, broker, other)


@pytest.fixture(autouse=True)
def in_place(place: Directories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", place.broker.address)
    monkeypatch.setenv("ODRADEK_CONFIG", str(place.folder / "profiles.toml"))
    monkeypatch.delenv("ODRADEK_PROFILE", raising=False)


def fill(broker: Broker, topics: tuple[str, ...], value: bytes = b"value %d") -> None:
    """Send some records to each topic, and to a transaction that stays committed."""
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "orders-1"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic in topics:
        for number in range(40):
            producer.produce(topic, value % number, b"key")
    producer.commit_transaction(30)


@dataclass(frozen=True)
class Shown:
    """A line of a block, and the output that the document shows below it; None where it shows none."""

    line: str
    output: list[str] | None


def shown(path: Path) -> list[Shown]:
    """The lines with a command of ours in the blocks of a document."""
    found: list[Shown] = []
    for match in _BLOCK.finditer(path.read_text(encoding="utf-8")):
        if match[1] in (None, "", "sh", "shell", "bash", "console"):
            text = match[2] if match[2] is not None else match[3]
            found += _lines(text.replace("\\\n", " "))
    return found


def _lines(block: str) -> Iterator[Shown]:
    lines = [line.removeprefix("    ") if block.startswith("    ") else line for line in block.splitlines()]
    is_session = any(line.startswith("$ ") for line in lines)
    for number, line in enumerate(lines):
        if not re.search(r"(?:^|\| |^\$ )odradek [a-z]", line):
            continue
        output = None
        if is_session:
            rest = lines[number + 1 :]
            until = next((index for index, each in enumerate(rest) if each.startswith("$ ")), len(rest))
            output = rest[:until]
        yield Shown(line.removeprefix("$ "), output)


# Commands that need ZooKeeper and several brokers (tests/cli/test_cluster_commands.py), those of test_tutorial.py, and
# those that run until they are stopped (tests/cli/test_registry.py, test_console.py).
ELSEWHERE = {"archive", "cluster", "console", "tutorial", "schemas"}
PAGES = [path for path in test_docs.DOCS if shown(path) and path.stem not in ELSEWHERE]


def test_the_pages_with_commands_are_found() -> None:
    names = {"README", "admin", "backup", "cli", "groups", "operations", "security", "sql", "storage", "transactions"}
    names |= {"work-queues"}
    assert {path.stem for path in PAGES} == names


@pytest.mark.parametrize("path", PAGES, ids=test_docs.name_of)
def test_the_commands_of_a_page_run_in_their_order(path: Path, place: Directories) -> None:
    prepare(path.stem, place)
    for each in shown(path):
        if any(words in each.line for words in SERVES):
            continue
        ended = place.run(each.line)
        expect(each.line, ended)
        if each.output is not None:
            assert like(ended.out + ended.err) == like("".join(f"{line}\n" for line in each.output)), each.line


def like(output: str) -> str:
    """Output without what differs from run to run: addresses and times."""
    return re.sub(r"\d+\.\d+ ms", "N ms", re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", output))


def expect(line: str, ended: Ended) -> None:
    plain = line.split("#")[0].strip()
    if plain in FAILS:
        assert FAILS[plain] in ended.err, (line, ended)
        return
    # What is watched ends when its reader goes.
    assert ended.status == (141 if "--watch" in line else 0), (line, ended)
    assert "Traceback" not in ended.err, (line, ended)


def prepare(page: str, place: Directories) -> None:
    """What the reader of a page has already."""
    if page == "admin":
        return  # it begins with the topics that it uses
    if page == "sql":
        place.run("odradek topics delete flights --yes")
    existing = {topic.name for topic in place.broker.topics.all()}
    if page != "README" and "flights" not in existing:
        place.run("odradek topics create flights --partitions 6")
    if page == "cli" and "flights-1" not in existing:
        place.run("odradek topics create flights-1")
    if page in ("cli", "groups", "transactions"):
        fill(place.broker, ("flights",))
    if page == "sql":
        fill(place.broker, ("flights",), b'{"carrier": "UA", "dep_delay": %d}')
        archive = ["archive", "run", "flights", "--once", "--to", str(place.folder / "archive")]
        assert run_here([*archive, "-b", place.broker.address], b"")[0] == 0
    if page in ("cli", "groups"):
        place.run("odradek consume flights --group delays --until-end")
    if page == "backup":
        shutil.rmtree(place.folder / "backups", ignore_errors=True)
        fill(place.broker, ("flights-1",))
        place.run("odradek consume flights-1 --group delays --until-end")
    if page == "security":
        (place.folder / "odradek-data.secure").mkdir()
        found = place.folder / "odradek-data.secure" / "client.properties"
        found.write_text(f"bootstrap.servers={place.broker.address}\n")
    if page == "storage":
        place.run("odradek topics delete audit prices --yes")
        place.run("seq 1100 | odradek produce flights --partition 0")


def functions_of(path: Path) -> Iterator[tuple[str, Any]]:
    """The functions that a document's Python defines and that are named as tests."""
    for name, code in test_docs.SNIPPETS:
        if name == test_docs.name_of(path) and "def test_" in code:
            scope: dict[str, Any] = {}
            exec(compile(code, name, "exec"), scope)
            yield from ((name, each) for name, each in scope.items() if name.startswith("test_"))


@pytest.mark.parametrize(("name", "function"), list(functions_of(ROOT / "README.md")))
def test_the_readmes_test_passes(name: str, function: Any) -> None:
    with kafka() as running:
        function(running)


async def test_the_readmes_program_runs() -> None:
    with kafka() as running:
        page, own = (ROOT / "README.md").read_text(encoding="utf-8"), {"127.0.0.1:9092": running.address}
        (program,) = [code for _, code in python_of(page, own) if "await" in code]
        waiting = begin(program, {"flights": [(b"UA", b"1545")]})
        assert waiting is not None
        await waiting
        assert [each.value for each in running.records("flights")] == [b"1545"]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 130
    assert len(list(functions_of(ROOT / "README.md"))) == 1


TABLE = [
    command
    for row in _ROW.findall((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))
    for command in _SPAN.findall(row)
]


# What a line of the output looks like. A line of the table that is not here prints nothing.
_NUMBERS = r"\d+"
_VALUES = r"\d+(:value)?|value|a picture|"
PRINTS = {
    "odradek topics list": r"\S+\t\d+",
    "odradek topics list --sizes": r"\S+(\t\d+){4}",
    "odradek topics describe t": r"t\t\d\t1\t1\t1\t0(\t\d+){3}",
    "odradek consume t -J": r'\{"topic": "t", "partition": 0, "offset": \d+, "timestamp": "\S+Z", .+\}',
    "odradek consume t --json": r'\{"topic": "t", "partition": 0, "offset": \d+, "timestamp": "\S+Z", .+\}',
    "odradek consume __consumer_offsets": r'(\{"\w+": .+\})?',
    "odradek consume t": _NUMBERS,
    "odradek consume t -o -5": r"109[6-9]|1100",
    "odradek consume t --tail 5": r"109[6-9]|1100",
    "odradek consume t -o beginning -e -K :": r":\d+",
    "odradek consume t --until-end": _VALUES,
    "odradek consume t -p 0 -o 1000 -c 10": r"100[1-9]|1010",
    "odradek consume t -p 0 -o 1000 -n 10": r"100[1-9]|1010",
    r"odradek consume t -f '%k %v\n'": r"\S* \d+",
    "odradek consume t -o @1763708400000": _NUMBERS,
    "odradek consume -r 't-.*'": _NUMBERS,
    'odradek sql "select count(*) from t"': _NUMBERS,
    "odradek consume t -g g": _VALUES,
    "odradek groups list": r"\S+\t(Empty|Stable)\t(classic|consumer)\tconsumer",
    "odradek groups describe g": r"g\tt\t\d(\t(\d+|-)){6}",
    "odradek groups list --lag": r"\S+\t(Empty|Stable)\t(classic|consumer)\tconsumer\t\d+\t\d+",
    "odradek groups reset-offsets g --to-earliest --execute": r"g\tt\t\d(\t(\d+|-)){5}",
    "odradek ping": "ADDRESS answered in N ms",
    "odradek cluster health": r"[a-z. ]+\tyes\t.+",
    "odradek cluster info": r"\S{22}\t1\t127\.0\.0\.1\t\d+\t-\tyes\t\d+",
    "odradek consume t -X fetch.min.bytes=1000": _NUMBERS,
    "odradek completion bash": r"_odradek_completion.*|[ {}].*|",
    "odradek perf produce t --records 1000000": r"10000(\t[\d.]+){8}",
    "odradek perf consume t": r"\d+(\t[\d.]+){4}",
    "odradek perf latency t": r"100(\t[\d.]+){12}",
    "odradek log dump F --records": r"\d+\t\S+\t(key\tvalue \d+|COMMIT\tcoordinator epoch 0)\t",
}


def test_the_table_has_what_people_know() -> None:
    assert len(TABLE) > 20 and PRINTS.keys() <= set(TABLE)


@pytest.mark.parametrize("line", TABLE)
def test_each_line_of_the_table_runs_and_prints_what_it_should(line: str, place: Directories) -> None:
    # What the lines before have written must not be read by this one.
    place.run("odradek topics delete t --yes")
    if not line.startswith("odradek topics create"):
        place.run("odradek topics create t --partitions 1")
        for topic in ("t", "t-1"):
            place.run(f"seq 1100 | odradek produce {topic} --partition 0")
        place.run("odradek consume t --group g --max 1")
        shutil.rmtree(place.folder / "backups", ignore_errors=True)
    ended = place.run(line)
    expect(line, ended)
    if line not in PRINTS:
        assert ended.out == ""
        return
    # The reader of a command that follows goes away in the middle of a line.
    printed = like(ended.out[: ended.out.rindex("\n") + 1]).splitlines()
    assert printed and not [each for each in printed if not re.fullmatch(PRINTS[line], each)], ended.out[:2000]
