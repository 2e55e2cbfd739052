"""`odradek serve --secure`: TLS by an authority of its own, ACLs, and a first user, with the files that clients need.

    DATA-DIR.secure/
      ca.pem, ca.key            the authority; clients trust ca.pem
      broker.pem                the broker's key and certificate, made again before it expires
      client.properties         for Java's clients and the command line: address, trust, user and password
      registry.login            user and password, where there is a schema registry (serve --registry)
      librdkafka.properties     the same by librdkafka's names (kcat -F)

The first user is a super user; every other one may do what ACLs allow. All but ca.pem are readable by their owner
alone. Promise: a later start keeps the authority and the user.
"""

from __future__ import annotations

import logging
import re
import secrets
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from .. import how_to_install
from ..broker.configs.security_table import AUTHORIZERS
from ..storage.backup_places import SECURE_SUFFIX
from ..web.origin import is_loopback
from .errors import CliError
from .private_file import write_private

USER = "admin"
MECHANISM = "SCRAM-SHA-512"
_LISTENER = "SASL_SSL"
_CHOSEN = ("listener.security.protocol.map", "sasl.enabled.mechanisms", "ssl.keystore.location", "zookeeper.connect")
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"

_log = logging.getLogger(__name__)


def secure_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of a broker with TLS and passwords. Makes what is missing: certificates, a first user."""
    host, port = _endpoint(texts)
    for name in _CHOSEN:
        if name in texts:
            raise click.UsageError(f"--secure sets {name} itself: leave one of the two out")
    _check_http(texts.get("http.listener", ""))
    data_dir, folder = _data_dir(texts), folder_of(texts)
    _make_certificate(folder, host)
    _make_user(folder, data_dir, host, port)
    click.echo(f"secure: clients need {folder}/client.properties (kcat: -F {folder}/librdkafka.properties)", err=True)
    use = f"odradek profile set secure --file {folder}/client.properties, then odradek profile use secure"
    click.echo(f"secure: commands take it as a profile: {use}", err=True)
    return {
        "authorizer.class.name": AUTHORIZERS[0],
        "super.users": f"User:{USER}",
        **texts,
        "listeners": f"{_LISTENER}://{host}:{port}",
        "sasl.enabled.mechanisms": MECHANISM,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
    }


def _check_http(listener: str) -> None:
    """Raise UsageError for an HTTP endpoint that others reach: it asks nobody who they are."""
    host, colon, _ = listener.rpartition(":")
    if colon and not is_loopback(host.strip("[]")):
        raise click.UsageError(
            f"--secure with --http {listener}: everybody who reaches it would read the names of topics and groups "
            "there. Let it listen on 127.0.0.1, and a proxy on this machine ask for a login"
        )


def _endpoint(texts: Mapping[str, str]) -> tuple[str, str]:
    """Return host and port to listen on."""
    listener = texts.get("listeners", "PLAINTEXT://127.0.0.1:9092")
    if not listener.startswith("PLAINTEXT://") or "," in listener:
        raise click.UsageError("--secure makes one listener: say where with --listen HOST:PORT")
    host, _, port = listener.removeprefix("PLAINTEXT://").rpartition(":")
    return host, port


def _data_dir(texts: Mapping[str, str]) -> str:
    found = texts.get("log.dirs") or texts.get("log.dir", "odradek-data")
    if "," in found:
        raise click.UsageError("--secure needs one data directory")
    return found.rstrip("/")


@contextmanager
def makes_certificates(what: str) -> Generator[None]:
    """Where the library that makes certificates cannot be imported, say what needs it and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("cryptography"):
            raise
        raise CliError(f"{what}: {how_to_install('certs')}") from error


def _make_certificate(folder: Path, host: str) -> None:
    """Make the authority and the broker's certificate, unless they are there."""
    with makes_certificates("--secure makes certificates"):
        from ..broker.security.authority import Authority, BadAuthority
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        Authority.open(folder).keep_certificate(folder / "broker.pem", _names(host))
    except (OSError, ValueError, BadAuthority) as error:
        raise CliError(f"{folder} cannot be used: {getattr(error, 'strerror', None) or error}") from error


def _names(host: str) -> list[str]:
    """Return the names and addresses by which clients may reach a broker that listens at a host."""
    names = {"localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()}
    if host not in ("", "0.0.0.0", "::"):
        names.add(host.strip("[]"))
    else:
        # Clients are told the address at which they have connected.
        names |= _addresses()
    return sorted(names)


def _addresses() -> set[str]:
    """Return the IP addresses of this machine, as far as its name and its routes tell them."""
    found = set[str]()
    with suppress(OSError):
        found |= {str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    # Connecting a socket of UDP sends nothing, and tells from which address it would.
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            found.add(str(probe.getsockname()[0]))
    return found


def _make_user(folder: Path, data_dir: str, host: str, port: str) -> None:
    """Make the first user and the files that a client needs, unless they are there."""
    configs = folder / "client.properties"
    if configs.exists():
        return
    from .users import set_offline

    password = secrets.token_urlsafe(18)
    set_offline(data_dir, USER, MECHANISM, password)
    address = f"{host if host not in ('', '0.0.0.0', '::') else socket.gethostname()}:{port}"
    authority = (folder / "ca.pem").absolute()
    java = {
        "bootstrap.servers": address,
        "security.protocol": _LISTENER,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{_LOGIN_MODULE} required username="{USER}" password="{password}";',
    }
    librdkafka = {
        "bootstrap.servers": address,
        "security.protocol": _LISTENER,
        "ssl.ca.location": authority,
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password": password,
    }
    # The one that says by its presence that all is there comes last.
    for path, lines in ((folder / "librdkafka.properties", librdkafka), (configs, java)):
        write_private(path, "".join(f"{name}={value}\n" for name, value in lines.items()))


def note_port(folder: Path, address: str) -> None:
    """Tell clients which port the broker has taken, which was to be any (0)."""
    port = address.rpartition(":")[2]
    for path in (folder / "librdkafka.properties", folder / "client.properties"):
        try:
            old = path.read_text()
            new = re.sub(r"^(bootstrap\.servers=.*:)\d+$", rf"\g<1>{port}", old, flags=re.MULTILINE)
            write_private(path, new)
        except (OSError, CliError) as error:
            _log.warning("%s does not tell clients the port %s: %s", path, port, error)


def folder_of(texts: Mapping[str, str]) -> Path:
    """Return where the files of a secure broker are."""
    return Path(f"{_data_dir(texts)}{SECURE_SUFFIX}")
