"""`odradek certs`: an authority with certificates of brokers and clients, for a team; what a file or a listener shows.

    DIR/
      ca.pem, ca.key     the authority; everybody trusts ca.pem, and only who signs has ca.key
      NAME.pem           a private key and its certificate, as brokers (ssl.keystore.location) and clients take them

Promise: no file is ever replaced, and private keys are readable by their owner alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .errors import CliError
from .output import print_rows, row_options, time_format, time_options
from .secure_start import makes_certificates
from .values import WholeNumber, read_password

if TYPE_CHECKING:
    from cryptography import x509

    from ..broker.security.authority import Authority
    from .offered_certificates import Offered

_MADE = ("file", "subject", "names", "ends")
_SHOWN = ("subject", "issuer", "names", "begins", "ends", "key", "trusted")
# A name becomes a file's name.
_MAX_NAME = 64

_dir_option = click.option(
    "--dir", "folder", metavar="DIR", default="certs", show_default=True, help="The folder of the authority."
)
_password_option = click.option(
    "--ca-password-file",
    "password_file",
    metavar="FILE",
    help="The file of the password of ca.key; - is standard input.",
)


def _days_option(default: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--days",
        metavar="N",
        type=WholeNumber(min=1, max=36_500),
        default=default,
        show_default=True,
        help="How long it is valid.",
    )


@click.group(short_help="Make certificates for TLS, and look at those of a file or a listener.")
def command() -> None:
    """Make an authority and the certificates of brokers and clients that it signs, for a test or a team. Look at what a
    file holds or a listener shows. `odradek serve --secure` makes its own.

    \b
    Examples:
      odradek certs ca
      odradek certs server broker-1.example 10.0.0.7
      odradek certs client alice
      odradek certs show certs/alice.pem
      odradek certs show broker-1.example:9093 --trust certs/ca.pem
    """


@command.command(short_help="Make an authority.")
@click.option("--name", metavar="NAME", default="Odradek authority", show_default=True, help="Its common name.")
@_days_option(3650)
@_dir_option
@_password_option
@row_options
@time_options
def ca(name: str, days: int, folder: str, password_file: str | None) -> None:
    """Make an authority: ca.pem, which brokers and clients trust, and ca.key, which signs. Keep ca.key to yourself.
    With --ca-password-file it is encrypted, and `server` and `client` need the same option.

    \b
    Examples:
      odradek certs ca
      odradek certs ca --dir team --name "Team authority" --days 730
      odradek certs ca --ca-password-file ca.password
    """
    password = _password(password_file)

    def make(folder: Path) -> tuple[Path, x509.Certificate]:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / "ca.pem", _authority_class().make(folder, _checked(name), days, password).certificate

    _make(Path(folder), make)


@command.command(short_help="Make the certificate of a broker.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@_days_option(397)
@_dir_option
@_password_option
@row_options
@time_options
def server(names: tuple[str, ...], days: int, folder: str, password_file: str | None) -> None:
    """Make the key and certificate of a broker that clients reach at these host names and IP addresses. The file has
    the first one's name. A broker of a cluster shows the same certificate to the others.

    \b
    Examples:
      odradek certs server localhost 127.0.0.1
      odradek certs server broker-1.example broker-1 10.0.0.7 --days 90
      odradek certs server '*.brokers.example'
    """
    checked = list(map(_checked_host, names))
    _sign(folder, names[0], password_file, lambda authority, path: authority.make_server(path, checked, days))


@command.command(short_help="Make the certificate of a client.")
@click.argument("name")
@_days_option(397)
@_dir_option
@_password_option
@row_options
@time_options
def client(name: str, days: int, folder: str, password_file: str | None) -> None:
    """Make the key and certificate of a client, for listeners with ssl.client.auth. To ACLs it is User:CN=NAME.

    \b
    Examples:
      odradek certs client alice
      odradek certs client importer --days 30
    """
    _sign(folder, name, password_file, lambda authority, path: authority.make_client(path, name, days))


@command.command(short_help="Print the certificates of a file or a listener.")
@click.argument("target", metavar="FILE|HOST:PORT")
@click.option("--trust", metavar="FILE", help="Say whether who trusts these authorities takes it, and why not.")
@row_options
@time_options
def show(target: str, trust: str | None) -> None:
    """Print the certificates of a file in PEM, or those that a listener shows: whose they are, who signed them, until
    when. Of a listener it is said on standard error which TLS it speaks, and whether it asks for a client certificate.

    With --trust the column `trusted` says whether a client with that trust store connects. Status 1 if it does not.

    \b
    Examples:
      odradek certs show certs/ca.pem
      odradek certs show localhost:9093 --trust certs/ca.pem
      odradek certs show certs/localhost.pem --trust certs/ca.pem --json
    """
    with makes_certificates("`certs` reads certificates"):
        from .offered_certificates import distrust, of_file, of_listener
    offered = of_file(target) if ":" not in target or Path(target).exists() else of_listener(target)
    for said in offered.notes:
        click.echo(said, err=True)
    why = distrust(offered, trust) if trust is not None else None
    _show(offered, None if trust is None else why is None)
    if why is not None:
        raise CliError(f"a client that trusts {trust} does not connect: {why}")


def _show(offered: Offered, is_trusted: bool | None) -> None:
    as_time = time_format()
    rows = [
        (each.subject, each.issuer, each.names, as_time(each.begins_ms), as_time(each.ends_ms), each.key, None)
        for each in offered.certificates
    ]
    print_rows(_SHOWN, [(*rows[0][:-1], is_trusted), *rows[1:]])


def _sign(
    folder: str, name: str, password_file: str | None, issue: Callable[[Authority, Path], x509.Certificate]
) -> None:
    """Have the authority of a folder make NAME.pem."""
    password = _password(password_file)

    def make(folder: Path) -> tuple[Path, x509.Certificate]:
        path = folder / f"{_checked(name).replace('*', '_')}.pem"
        if path.name == "ca.pem":
            raise CliError("no certificate was made: the name ca is the authority's")
        return path, issue(_authority(folder, password), path)

    _make(Path(folder), make)


def _make(folder: Path, make: Callable[[Path], tuple[Path, x509.Certificate]]) -> None:
    """Make a file and print what it is. CliError where that fails."""
    with makes_certificates("`certs` makes certificates"):
        from ..broker.security.authority import BadAuthority
        from .offered_certificates import described
    try:
        path, certificate = make(folder)
    except FileExistsError as error:
        raise CliError(
            f"{error.filename} is there already, and nothing is replaced: remove it, or use --dir"
        ) from error
    except OSError as error:
        raise CliError(f"{error.filename or folder}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, BadAuthority) as error:
        raise CliError(f"no certificate was made: {error}") from error
    found = described(certificate)
    print_rows(_MADE, [(path, found.subject, found.names, time_format()(found.ends_ms))])


def _authority_class() -> type[Authority]:
    from ..broker.security.authority import Authority

    return Authority


def _password(file: str | None) -> bytes | None:
    """Return the password of ca.key. CliError where the file has none."""
    return None if file is None else read_password("--ca-password-file", file).encode()


def _authority(folder: Path, password: bytes | None) -> Authority:
    try:
        return _authority_class().read(folder, password)
    except FileNotFoundError as error:
        raise CliError(f"{error.filename} is missing: `odradek certs ca --dir {folder}` makes an authority") from error


def _checked_host(name: str) -> str:
    """Return a host name or address that a broker may have. CliError otherwise."""
    if not name or not name.isprintable() or " " in name or "/" in name:
        raise CliError(f"no certificate was made: {name[:80]!r} is no host")
    return name


def _checked(name: str) -> str:
    """Return a name that can be in a certificate and in the name of a file. CliError otherwise."""
    if not name.isprintable() or not 0 < len(name) <= _MAX_NAME or "/" in name or name.startswith("."):
        rule = f"a name has 1 to {_MAX_NAME} letters, no / and no dot in front"
        raise CliError(f"no certificate was made: {rule}, unlike {name[:80]!r}")
    return name
