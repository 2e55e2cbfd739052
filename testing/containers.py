"""`KafkaContainer` and `RedpandaContainer`, shaped as testcontainers's, without a container: one import changes.

    from odradek.testing.containers import KafkaContainer  # was: from testcontainers.kafka import KafkaContainer

    with KafkaContainer() as container:
        run_my_service(container.get_bootstrap_server())

The broker runs in a thread of this process, whatever image is named. `with_env("KAFKA_X_Y", ...)` sets the config x.y.
What means nothing without a container (volumes, networks, commands) warns once.
"""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..broker.configs.broker_config import BrokerConfig
from ..broker.configs.definition import ConfigError
from . import broker_log
from .errors import Unavailable
from .local import LocalKafka

if TYPE_CHECKING:
    from .schema_registry import LocalSchemaRegistry

_PREFIX = "KAFKA_"
_HOST = "127.0.0.1"
# What the broker has of its own, or does without.
_OWN = ("listeners", "advertised.listeners", "listener.security.", "inter.broker.listener", "controller.", "log.dir")
_OTHERS = ("process.roles", "zookeeper.", "heap.", "opts", "jmx.", "log4j.", "jvm.", "gc.")
# Methods of a container that change nothing here, and return the container.
_MEANINGLESS = (
    *("with_cluster_id", "with_command", "with_copy_into_container", "with_kwargs", "with_name", "with_network"),
    *("with_network_aliases", "with_tmpfs_mount", "with_user", "with_volume_mapping", "waiting_for"),
    "maybe_emulate_amd64",
)
_KEPT_LINES = 10_000


class KafkaContainer:
    """A broker behind the methods of a container. `start` it, or use it with `with`."""

    def __init__(
        self,
        image: str = "odradek",
        port: int = 9093,
        wait_strategy_check_string: str = "",
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        *,
        env: Mapping[str, object] | None = None,
        ports: list[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """Takes what testcontainers' takes. Unavailable for a protocol with TLS or logins: `LocalKafka` has them."""
        if security_protocol != "PLAINTEXT":
            why = f"a KafkaContainer speaks PLAINTEXT, not {security_protocol}: use LocalKafka(tls=True, users=...)"
            raise Unavailable(why)
        self.image = image
        # Inside the container that there is not. `get_exposed_port` tells where clients connect.
        self.port = port
        self.listener_name = listener_name
        self.kraft_enabled = False
        self.env: dict[str, str] = {}
        self.ports: dict[str, int | None] = {}
        self._warned: set[str] = set()
        self._kafka: LocalKafka | None = None
        self._log = _Log()
        self.with_envs(**(env or {})).with_exposed_ports(port, *(ports or ()))
        for name in kwargs:
            self._warn(name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __getattr__(self, name: str) -> Callable[..., Self]:
        if name not in _MEANINGLESS:
            raise AttributeError(f"a KafkaContainer of odradek has no {name!r}: there is no container, see `kafka`")

        def change_nothing(*_: object, **__: object) -> Self:
            self._warn(name)
            return self

        return change_nothing

    def _warn(self, what: str, why: str = "there is no container") -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(f"{what} means nothing here: {why}", stacklevel=3)

    # -- Before the start

    def with_env(self, key: str, value: object) -> Self:
        """Set the config x.y by KAFKA_X_Y (`__` is a dash, `___` an underscore), when the broker starts."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: object) -> Self:
        """Set several variables."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_env_file(self, env_file: str | Path) -> Self:
        """Set the variables of a file with lines NAME=VALUE."""
        lines = map(str.strip, Path(env_file).read_text().splitlines())
        pairs = (each.partition("=") for each in lines if "=" in each and not each.startswith("#"))
        return self.with_envs(**{name.strip(): value.strip().strip("'\"") for name, _, value in pairs})

    def with_kraft(self) -> Self:
        """Return the container: the broker needs no ZooKeeper in any case."""
        self.kraft_enabled = True
        return self

    def with_bind_ports(self, container: str | int, host: str | int | None = None) -> Self:
        """Listen on the port `host`, which stays the same."""
        self.ports[str(container).partition("/")[0]] = int(str(host).partition("/")[0]) if host else None
        return self

    def with_exposed_ports(self, *ports: str | int) -> Self:
        """Let `get_exposed_port` answer for the broker's port, which it does anyway."""
        for each in ports:
            self.with_bind_ports(each)
        return self

    # -- The broker

    def start(self, timeout: float = 30) -> Self:
        """Start the broker, and return once a client can connect. ConfigError for a config that cannot be used."""
        if self._kafka is None:
            broker_log.begin(self._log)
            try:
                self._kafka = LocalKafka(self._configs())
            except BaseException:
                broker_log.end(self._log)
                raise
            # What those wait for who look for the line of Kafka.
            self._log.lines.append(f"[KafkaServer id={self._kafka.broker.node_id}] started: Kafka Server started")
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop the broker; nothing of it stays. Idempotent."""
        kafka, self._kafka = self._kafka, None
        if kafka is not None:
            try:
                kafka.close()
            finally:
                broker_log.end(self._log)

    @property
    def kafka(self) -> LocalKafka:
        """The broker, with all that a test can do to it. Unavailable while it does not run."""
        if self._kafka is None:
            raise Unavailable("this KafkaContainer does not run: call start(), or use it with `with`")
        return self._kafka

    def get_bootstrap_server(self) -> str:
        """Return HOST:PORT."""
        return self.kafka.address

    def get_container_host_ip(self) -> str:
        """Return the address of this machine at which the broker listens."""
        return _HOST

    def get_exposed_port(self, port: int) -> int:
        """Return where clients connect for the port of the container."""
        if int(port) not in (self.port, 9092):
            raise Unavailable(f"nothing listens for port {port}: the broker's is {self.port}")
        return int(self.kafka.address.rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """Return the log of this process's brokers since the start, as standard output, and nothing as error."""
        return "".join(f"{each}\n" for each in list(self._log.lines)).encode(), b""

    def get_wrapped_container(self) -> Self:
        """Return this object, which has `status` and `reload` as Docker's."""
        return self

    @property
    def status(self) -> str:
        """Docker's word for how the container is."""
        return "running" if self._kafka is not None else "exited" if self._log.lines else "created"

    def reload(self) -> None:
        """Do nothing: `status` is always new."""

    # -- Configs

    def _configs(self) -> dict[str, str]:
        """Return the configs of the variables. Warns of those that mean nothing here."""
        configs: dict[str, str] = {}
        for key, value in self.env.items():
            name = _config_named(key)
            if name is None or name.startswith(_OTHERS) or name.startswith(_OWN):
                self._warn(key)
            elif (why := _unknown(name, value)) is not None:
                self._warn(key, why)
            else:
                configs[name] = value
        configs["listeners"] = f"{self.listener_name}://{_HOST}:{self.ports.get(str(self.port)) or 0}"
        if self.listener_name != "PLAINTEXT":
            configs["listener.security.protocol.map"] = f"{self.listener_name}:PLAINTEXT"
        return configs


class RedpandaContainer(KafkaContainer):
    """The same in the place of testcontainers' `RedpandaContainer`: with it starts a schema registry."""

    def __init__(self, image: str = "odradek", **kwargs: Any) -> None:
        """Takes what testcontainers' takes."""
        super().__init__(image, 9092, **kwargs)
        self.redpanda_port, self.schema_registry_port = 9092, 8081
        self._registry: LocalSchemaRegistry | None = None

    def start(self, timeout: float = 30) -> Self:
        """Start broker and registry, and return once clients can connect."""
        super().start(timeout)
        if self._registry is None:
            try:
                from .schema_registry import LocalSchemaRegistry

                port = self.ports.get(str(self.schema_registry_port)) or 0
                self._registry = LocalSchemaRegistry(self.kafka, port=port)
            except BaseException:
                self.stop()
                raise
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop both; nothing of them stays. Idempotent."""
        registry, self._registry = self._registry, None
        try:
            if registry is not None:
                registry.close()
        finally:
            super().stop(force, delete_volume)

    def get_schema_registry_address(self) -> str:
        """Return the URL of the registry."""
        if self._registry is None:
            raise Unavailable("this RedpandaContainer does not run: call start(), or use it with `with`")
        return self._registry.url

    def get_exposed_port(self, port: int) -> int:
        """Return where clients connect for a port of the container."""
        if int(port) == self.schema_registry_port:
            return int(self.get_schema_registry_address().rpartition(":")[2])
        return super().get_exposed_port(port)


def _config_named(variable: str) -> str | None:
    """Return Kafka's name of a config, as its images read their variables; None for another variable."""
    if not variable.startswith(_PREFIX):
        return None
    name = variable.removeprefix(_PREFIX).lower()
    return name.replace("___", "\0").replace("__", "-").replace("_", ".").replace("\0", "_")


def _unknown(name: str, value: str) -> str | None:
    """Return why Kafka does not know a config; None for one that it knows. ConfigError for a bad value."""
    try:
        BrokerConfig.parse({name: value}, strict=True)
    except ConfigError as error:
        # Kafka starts with a config that it does not know.
        BrokerConfig.parse({name: value}, strict=False)
        return str(error)
    return None


class _Log(logging.Handler):
    """The lines that brokers of this process log, from the start of a container to its end."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
