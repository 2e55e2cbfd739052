"""`odradek users`: the passwords of SCRAM by which clients log in. Only salted keys leave this command."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .errors import CliError, as_cli_error
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin
from .values import OneOf, properties_of, read_password

if TYPE_CHECKING:
    from ..broker.security.sasl.scram import Credential

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LISTED = ("user", "mechanism", "iterations")
# What Kafka's own tools store.
_ITERATIONS = 4096
_SALT_BYTES = 24

_mechanism_option = click.option(
    "--mechanism", type=OneOf(_MECHANISMS), default="SCRAM-SHA-512", show_default=True, help="How the user logs in."
)


@click.group(short_help="Set, list and delete the passwords by which clients log in.")
def command() -> None:
    """Set, list and delete the passwords by which clients log in (SCRAM).

    \b
    Examples:
      odradek users set alice --password-file alice.txt
      odradek users list
      odradek users delete alice
    """


@command.command("list", short_help="Print the users that have a password.")
@row_options
@bootstrap_option
def list_users() -> None:
    """Print the users that have a password, with the mechanism and its iterations. Never the password.

    \b
    Examples:
      odradek users list
      odradek users list --json
    """
    found = with_admin(lambda admin: admin.describe_user_scram_credentials())
    print_rows(_LISTED, ((user, *each) for user, kept in sorted(found.items()) for each in sorted(kept.items())))


@command.command("set", short_help="Set the password of a user.")
@click.argument("user", metavar="NAME")
@click.option("--password-file", metavar="FILE", required=True, help="The file of the password; - is standard input.")
@_mechanism_option
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Write to the data directory of a broker that does not run, as before its first start.",
)
@click.option(
    "--config",
    "properties",
    metavar="FILE",
    help="Write to the ZooKeeper of a cluster, as before its first start. FILE is server.properties of a broker.",
)
@bootstrap_option
def set_user(user: str, password_file: str, mechanism: str, data_dir: str | None, properties: str | None) -> None:
    """Set the password of a user, at once. Sessions that are open go on.

    \b
    Examples:
      odradek users set alice --password-file alice.txt
      printf %s "$PASSWORD" | odradek users set alice --password-file -
      odradek users set admin --password-file - --data-dir /var/lib/odradek
      odradek users set broker --password-file - --config server.properties
    """
    if data_dir is not None and properties is not None:
        raise click.UsageError("--data-dir and --config exclude each other.")
    password = read_password("--password-file", password_file)
    if properties is not None:
        set_in_cluster(properties, user, mechanism, password)
        return
    if data_dir is not None:
        set_offline(data_dir, user, mechanism, password)
        return
    from ..client.admin.users import ScramPassword

    with_admin(lambda admin: admin.alter_user_scram_credentials(ScramPassword(user, mechanism, password)))


@command.command("delete", short_help="Delete the password of a user.")
@click.argument("user", metavar="NAME")
@_mechanism_option
@bootstrap_option
def delete_user(user: str, mechanism: str) -> None:
    """Delete the password of a user. Sessions that began with it end.

    \b
    Examples:
      odradek users delete alice
      odradek users delete alice --mechanism SCRAM-SHA-256
    """
    from ..client.admin.users import ScramPassword

    with_admin(lambda admin: admin.alter_user_scram_credentials(ScramPassword(user, mechanism, None)))


def set_offline(data_dir: str, user: str, mechanism: str, password: str) -> None:
    """Set a password in a data directory whose broker does not run."""
    from ..broker.log_dirs.data_dir import StartError
    from ..broker.topics.offline_directory import OfflineDirectory
    from ..storage.errors import StorageError

    credential = _credential(mechanism, password)
    with as_cli_error(OSError, StartError, StorageError), OfflineDirectory(Path(data_dir)) as directory:
        directory.metadata.put_scram([(user, mechanism, credential)])


def set_in_cluster(properties: str, user: str, mechanism: str, password: str) -> None:
    """Set a password in the ZooKeeper that the configs of a broker name."""

    from ..broker.cluster.first_users import set_password
    from ..broker.cluster.znodes import BadZnode
    from ..broker.configs.broker_config import BrokerConfig
    from ..broker.configs.definition import ConfigError
    from ..broker.security.pem import StoreError
    from ..protocol.errors import KafkaError

    with as_cli_error(BadZnode, ConfigError, KafkaError, OSError, StoreError):
        config, _ = BrokerConfig.parse(properties_of(properties))
        if config.zookeeper_connect is None:
            raise CliError(f"{properties} has no zookeeper.connect: for a broker that is alone there is --data-dir")
        asyncio.run(set_password(config, user, mechanism, _credential(mechanism, password)))


def _credential(mechanism: str, password: str) -> Credential:
    import secrets

    from ..broker.security.sasl.scram import credential_of
    from ..protocol.sasl import salted_password

    salt = secrets.token_bytes(_SALT_BYTES)
    return credential_of(mechanism, salted_password(mechanism, password, salt, _ITERATIONS), salt, _ITERATIONS)
