"""-X and profiles: every config that a command takes is in the clients that it makes, and on the wire where it shows.

What a command could not act on is refused.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from odradek import client
from odradek.broker import Broker
from odradek.broker.network import dispatcher
from odradek.cli.client_configs import KINDS, options_of, texts_of
from odradek.client.errors import UnknownTopic
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey, request_class
from odradek.tests.cli.test_every_command import CONTEXTS
from odradek.tests.support.documents.command import run, threaded_broker
from odradek.tests.support.documents.shell import run_here

CLASSES = {kind: getattr(client, name) for kind, name in KINDS.items()}
PARAMETERS = {
    each.name.replace("_", "."): each for cls in CLASSES.values() for each in inspect.signature(cls).parameters.values()
}
# Every name that a client has, and what people may try.
NAMES = sorted({*PARAMETERS, "topics", "queue.buffering.max.ms", "partition.assignment.strategy", "retries", "nope"})
TAKE_CONFIGS = {
    each.command_path.removeprefix("odradek "): each
    for each in CONTEXTS
    if any("-X" in parameter.opts for parameter in each.command.params)
}
SECURITY = ("sasl.mechanism=PLAIN", "sasl.username=u", "sasl.password=p", "security.protocol=SASL_PLAINTEXT")


def another_value(name: str) -> str:
    """A value that is not the default, and that goes together with the other defaults."""
    default: Any = PARAMETERS[name].default
    if isinstance(default, bool):
        return str(not default).lower()
    if isinstance(default, int | float):
        return str(default - 1 if default > 1 else default + 1)
    return "mine"


def is_taken(context: click.Context, name: str, value: str) -> bool:
    """Whether a command's -X takes a config; if it does not, it says why."""
    try:
        context.command.make_context(context.info_name, ["-X", f"{name}={value}"], parent=context.parent)
    except click.UsageError as error:
        if error.message.startswith("-X: "):
            assert name in error.message and len(error.message) < 600
            return False
    return True


@functools.cache
def taken_by(command: str) -> list[str]:
    context = TAKE_CONFIGS[command]
    return [name for name in NAMES if is_taken(context, name, another_value(name) if name in PARAMETERS else "1")]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """A broker with the topic t, and one of another cluster."""
    folder = tmp_path_factory.mktemp("configs")
    with threaded_broker(folder / "data", group_initial_rebalance_delay_ms=0) as broker:
        with threaded_broker(folder / "other") as other:
            status, _, said = run_here(["produce", "t", "-b", broker.address], b"one\ntwo\n")
            assert status == 0, said
            assert run("groups", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--execute",
                       "-b", broker.address).exit_code == 0  # fmt: skip
            yield broker, other


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The clients that commands make from now on: class and options."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name in set(KINDS.values()):
        cls = getattr(client, name)
        monkeypatch.setattr(cls, "__init__", recorded(name, cls.__init__, found))
    return found


def recorded(name: str, original: Any, found: list[tuple[str, dict[str, Any]]]) -> Any:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **options: Any) -> None:
        found.append((name, options))
        original(self, *args, **options)

    return init


# Commands with more kinds of clients than an Admin, and one of the many that have no more.
LINES_WITH_CLIENTS = {
    "consume": "t --until-end --group new",
    "produce": "t",
    "perf consume": "t --records 1",
    "perf latency": "t --records 2",
    "perf produce": "t --records 1",
    "topics copy": "t --to OTHER",
    "topics list": "",
}


def test_the_commands_with_clients_of_their_own_are_known() -> None:
    """Every other command takes what `topics list` takes."""
    of_admin = taken_by("topics list")
    others = {name for name in TAKE_CONFIGS if taken_by(name) != of_admin}
    assert others == LINES_WITH_CLIENTS.keys() - {"topics list"} | {
        "archive check",
        "archive run",
        "archive status",
        "sql",
        "registry",
        "console",
    }


@pytest.mark.parametrize("command", LINES_WITH_CLIENTS, ids=lambda name: name.replace(" ", "-"))
def test_every_config_that_a_command_takes_is_in_a_client_that_it_makes(
    command: str, brokers: tuple[Broker, Broker], made: list[tuple[str, dict[str, Any]]]
) -> None:
    names = taken_by(command)
    assert {"client.id", "request.timeout.ms"} <= set(names)
    words = [*command.split(), *shlex.split(LINES_WITH_CLIENTS[command].replace("OTHER", brokers[1].address))]
    for name in names:
        words += ["-X", f"{name}={another_value(name)}"]
    status, _, said = run_here([*words, "-b", brokers[0].address], b"three\n")
    assert status == 0, said
    found = {name: value for _, options in made for name, value in options.items()}
    for name in names:
        assert str(found[PARAMETERS[name].name]).lower() in (another_value(name), f"{another_value(name)}.0"), name
    for cls, options in made:
        assert options["client_id"] == "mine", f"a {cls} without the config"


@pytest.mark.parametrize("command", LINES_WITH_CLIENTS, ids=lambda name: name.replace(" ", "-"))
def test_security_of_a_profile_is_in_every_client(
    command: str, brokers: tuple[Broker, Broker], made: list[tuple[str, dict[str, Any]]]
) -> None:
    """The broker has no SASL: what is asked for without a password in clear is refused by it, not left out by us."""
    address = brokers[0].address
    assert run("profile", "set", "secure", f"bootstrap.servers={address}", *SECURITY).exit_code == 0
    words = [*command.split(), *shlex.split(LINES_WITH_CLIENTS[command].replace("OTHER", brokers[1].address))]
    status, printed, said = run_here([*words, "--profile", "secure"], b"three\n")
    assert (status, printed, said.count("\n")) == (1, b"", 1), said
    assert made
    for cls, options in made:
        assert options["sasl_plain_username"] == "u", f"a {cls} without security"


def test_sql_takes_what_its_reader_acts_on(monkeypatch: pytest.MonkeyPatch, brokers: tuple[Broker, Broker]) -> None:
    pytest.importorskip("duckdb", reason="SQL is asked by DuckDB")
    from odradek.client.spark.options import parse_options
    from odradek.client.sql.topic_tables import TopicTables

    found: list[dict[str, str]] = []
    original = TopicTables.__init__

    def init(self: Any, options: Any, **more: Any) -> None:
        found.append(options)
        original(self, options, **more)

    monkeypatch.setattr(TopicTables, "__init__", init)
    # What no reader of SQL has is for other commands.
    assert run("profile", "set", "p", "linger.ms=7", "session.timeout.ms=10000", "retry.backoff.ms=1s").exit_code == 0
    words = ["sql", "select count(*) from t", "--profile", "p", "-b", brokers[0].address]
    names = taken_by("sql")
    for name in names:
        words += ["-X", f"{name}={another_value(name)}"]
    status, printed, said = run_here(words, b"")
    assert (status, said) == (0, "") and int(printed) >= 2
    (options,) = found
    assert options.keys() >= {f"kafka.{name}" for name in names}
    assert options["kafka.retry.backoff.ms"] == "99" and "kafka.linger.ms" not in options
    assert parse_options({**options, "subscribe": "t"}).warnings == ()


@pytest.fixture
def options_of_sql(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The options that `odradek sql` gives to its tables, which then find no topic."""
    pytest.importorskip("duckdb", reason="SQL is asked by DuckDB")
    from odradek.client.sql.topic_tables import TopicTables

    found: list[dict[str, str]] = []

    def init(self: Any, options: Any, **_: Any) -> None:
        found.append(options)
        raise UnknownTopic("enough")

    monkeypatch.setattr(TopicTables, "__init__", init)
    return found


def test_sql_takes_a_password_in_place_of_a_line_of_jaas(options_of_sql: list[dict[str, str]]) -> None:
    from odradek.client.spark.options import parse_client

    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="old";'
    configs = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "ssl.endpoint.identification.algorithm="]
    assert run("profile", "set", "p", *configs, f"sasl.jaas.config={line}").exit_code == 0
    assert "enough" in run("sql", "select 1", "--profile", "p", "-X", "sasl.password=new").stderr
    security = parse_client(options_of_sql[0]).security
    told = (security.sasl_plain_username, security.sasl_plain_password, security.ssl_check_hostname)
    assert told == ("u", "new", False)


def test_sql_reads_a_file_with_a_token(tmp_path: Path, options_of_sql: list[dict[str, str]]) -> None:
    from odradek.client.core.security import TokenFile
    from odradek.client.spark.options import parse_client

    url = (tmp_path / "my token").as_uri()
    configs = ("security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", f"sasl.oauthbearer.token.endpoint.url={url}")
    given = [word for each in configs for word in ("-X", each)]
    assert "enough" in run("sql", "select 1", "-b", "h:1", *given).stderr
    assert parse_client(options_of_sql[0]).security.sasl_oauth_token_provider == TokenFile(tmp_path / "my token")


@pytest.mark.parametrize("check", ["ssl.endpoint.identification.algorithm=https", "ssl.check.hostname=true"])
def test_a_command_checks_the_host_name_that_its_profile_does_not(check: str) -> None:
    profile = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    name, _, text = check.partition("=")
    assert texts_of("sql", profile, {name: text})["ssl.check.hostname"] == "true"
    assert (options_of("admin", profile) | options_of("admin", {name: text}))["ssl_check_hostname"] is True


@pytest.mark.parametrize("name", sorted(PARAMETERS.keys() - {"topics", "security"}))
def test_a_value_that_a_config_cannot_have_is_wrong_usage(name: str) -> None:
    for command in LINES_WITH_CLIENTS:
        context = TAKE_CONFIGS[command]
        if name not in taken_by(command):
            continue
        bad = ["x" * 40_000, "\udcff"]
        if not isinstance(PARAMETERS[name].default, str | None):
            bad += ["", "x", "-1", "nan", "inf", "1e300", str(2**63), "5 parsecs"]
        for value in bad:
            assert not is_taken(context, name, value), value


def test_units_are_taken_off() -> None:
    assert is_taken(TAKE_CONFIGS["consume"], "request.timeout.ms", "5s")
    assert is_taken(TAKE_CONFIGS["consume"], "fetch.min.bytes", "64KiB")


def test_a_config_of_groups_needs_a_group(brokers: tuple[Broker, Broker]) -> None:
    ended = run("consume", "t", "--until-end", "-X", "session.timeout.ms=7000", "-b", brokers[0].address)
    assert ended.exit_code == 2
    assert ended.stderr.endswith("Error: -X: session.timeout.ms would have no effect without --group\n")


def test_ping_does_not_pretend_to_speak_tls() -> None:
    assert run("profile", "set", "p", "bootstrap.servers=127.0.0.1:1", "security.protocol=SASL_SSL").exit_code == 0
    ended = run("ping", "--profile", "p")
    assert ended.exit_code == 1
    assert ended.stderr.startswith("odradek: ping knows no TLS") and ended.stderr.count("\n") == 1


# -- The wire


@contextmanager
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """The requests that brokers of this process get meanwhile: client id and message."""
    found: list[tuple[str, Any]] = []
    handle = dispatcher.Dispatcher.__call__

    def noted(self: Any, connection: Any, data: memoryview) -> Any:
        key, version, *_ = frame.decode_request_header(data)[0]
        cls = request_class(key)
        assert cls is not None
        _, client_id, message, _ = frame.request_decoder(cls, version)(bytes(data))
        found.append((client_id or "", message))
        return handle(self, connection, data)

    with monkeypatch.context() as patch:
        patch.setattr(dispatcher.Dispatcher, "__call__", noted)
        yield found


def of(found: list[tuple[str, Any]], key: ApiKey) -> list[Any]:
    return [message for _, message in found if isinstance(message, request_class(key) or ())]


def given(*pairs: str) -> list[str]:
    return [word for pair in pairs for word in ("-X", pair)]


def test_configs_of_a_consumer_are_on_the_wire(brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    configs = ("fetch.min.bytes=7", "fetch.max.wait.ms=41", "fetch.max.bytes=100kB", "client.rack=r1")
    profile = ("max.partition.fetch.bytes=77777", "client.id=of-profile", "fetch.min.bytes=1000000", "linger.ms=9")
    assert run("profile", "set", "wire", f"bootstrap.servers={brokers[0].address}", *profile).exit_code == 0
    with requests(monkeypatch) as found:
        status, _, said = run_here(["consume", "t", "--until-end", "--profile", "wire", *given(*configs)], b"")
    assert status == 0, said
    fetch = of(found, ApiKey.FETCH)[0]
    assert (fetch.min_bytes, fetch.max_wait_ms, fetch.max_bytes, fetch.rack_id) == (7, 41, 100_000, "r1")
    assert fetch.topics[0].partitions[0].partition_max_bytes == 77_777
    assert {name for name, _ in found} == {"of-profile"}


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "does not commit"])
def test_configs_of_a_member_are_on_the_wire(
    commits: bool, brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = ("session.timeout.ms=7s", "max.poll.interval.ms=8000", "heartbeat.interval.ms=100")
    switch = f"enable.auto.commit={str(commits).lower()}"
    words = ["consume", "t", "--until-end", "-g", f"wire-{commits}", "-b", brokers[0].address]
    with requests(monkeypatch) as found:
        status, _, said = run_here([*words, *given(*configs, switch)], b"")
    assert status == 0, said
    join = of(found, ApiKey.JOIN_GROUP)[0]
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (7000, 8000)
    assert bool(of(found, ApiKey.OFFSET_COMMIT)) == commits


def test_a_static_member_is_one_on_the_wire(brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["consume", "t", "--until-end", "-b", brokers[0].address]
    with requests(monkeypatch) as found:
        assert (
            run_here([*words, "-g", "wire-static", *given("group.instance.id=one", "group.protocol=classic")], b"")[0]
            == 0
        )
    assert of(found, ApiKey.JOIN_GROUP)[0].group_instance_id == "one"
    with requests(monkeypatch) as found:
        newer = given("group.instance.id=two", "group.protocol=consumer")
        assert run_here([*words, "-g", "wire-newer", *newer], b"")[0] == 0
    assert of(found, ApiKey.CONSUMER_GROUP_HEARTBEAT)[0].instance_id == "two"


def test_configs_of_a_producer_are_on_the_wire(brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["produce", "wire", "-b", brokers[0].address]
    lines = b"".join(b"%03d\n" % number for number in range(300))
    with requests(monkeypatch) as found:
        assert run_here([*words, *given("request.timeout.ms=12345", "client.id=p")], lines)[0] == 0
    produce = of(found, ApiKey.PRODUCE)
    assert [(each.timeout_ms, each.acks) for each in produce] == [(12_345, -1)]
    assert of(found, ApiKey.INIT_PRODUCER_ID) and {name for name, _ in found} == {"p"}
    with requests(monkeypatch) as found:
        assert run_here([*words, "--acks", "1", *given("batch.size=200")], lines)[0] == 0
    produce = of(found, ApiKey.PRODUCE)
    assert len(produce) > 1 and {each.acks for each in produce} == {1}
    assert not of(found, ApiKey.INIT_PRODUCER_ID)
    with requests(monkeypatch) as found:
        status, _, said = run_here([*words, *given("max.request.size=1kB")], b"x" * 2000 + b"\n")
    assert (status, said.count("\n")) == (1, 1) and "1000" in said
    assert not of(found, ApiKey.PRODUCE)


def test_configs_of_an_admin_are_on_the_wire(brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    configs = given("request.timeout.ms=4321", "client.id=a")
    with requests(monkeypatch) as found:
        assert run_here(["topics", "create", "made", "-b", brokers[0].address, *configs], b"")[0] == 0
    (create,) = of(found, ApiKey.CREATE_TOPICS)
    assert create.timeout_ms == 4321 and {name for name, _ in found} == {"a"}


def test_a_profile_takes_a_file_and_shows_no_password(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    jaas = 'org.x.ScramLoginModule required username="a" password="hunter2";'
    file.write_text(
        f"bootstrap.servers=h:1\nsecurity.protocol=SASL_SSL\nsasl.jaas.config={jaas}\nsasl.password=hunter2\n"
    )
    assert run("profile", "set", "team", "--file", file, "request.timeout.ms=5000").exit_code == 0
    shown = run("profile", "show", "team").stdout
    assert "h:1" in shown and "5000" in shown and shown.count("[hidden]") == 2 and "hunter2" not in shown
    missing = run("profile", "set", "team", "--file", tmp_path / "missing")
    assert missing.exit_code == 1 and "missing" in missing.stderr
