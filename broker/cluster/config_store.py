"""Configs in ZooKeeper: written by the controller, announced under `/config/changes`, and acted on by every broker.

A notification names the topic or broker whose configs have changed. A broker reads the notifications that it has not
seen, then the configs themselves. At its start, and after its session has expired, it reads all configs again.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...zookeeper.operations import Create, Delete, Put, Steps, children, create, read_all, write, write_all
from .adoption import EVERY_BROKER
from .znodes import (
    CONFIG_CHANGE_PREFIX,
    CONFIG_CHANGES,
    config_path,
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
    sound,
)

TOPICS, BROKERS = "topics", "brokers"
# The last so many notifications stay, for a broker that was cut off for a moment. Kafka keeps those of 15 minutes.
CHANGES_KEPT = 1000


def read_configs(entity: str, names: list[str]) -> Steps[dict[str, dict[str, str]]]:
    """Return the configs of topics or brokers, {} for each without any. Those that make no sense are left out."""
    paths = [config_path(entity, name) for name in names]
    znodes = yield from read_all(paths)
    found: dict[str, dict[str, str]] = {}
    for name, path, znode in zip(names, paths, znodes, strict=True):
        configs = sound(decode_config, path, znode.data) if znode is not None and znode.data else {}
        if configs is not None:
            found[name] = configs
    return found


def write_config(entity: str, name: str, configs: Mapping[str, str]) -> Steps[None]:
    """Replace the configs of a topic or broker, and announce the change: both or neither, also where this is cut short.

    Otherwise brokers would have different configs until their next start.
    """
    path = config_path(entity, name)
    put = Put(path, encode_config(dict(configs)))
    notice = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity, name), is_sequential=True)
    failure = yield from write(put, notice)
    if failure is not None and failure.missing:
        for each in (path, CONFIG_CHANGES):
            yield from create(Create(each))
        yield from write(put, notice)
    old = (yield from children(CONFIG_CHANGES))[:-CHANGES_KEPT]
    yield from write_all((Delete(f"{CONFIG_CHANGES}/{each}"),) for each in old)


def read_changes(after: str) -> Steps[list[tuple[str, str, str]]]:
    """Return (name of the notification, entity, its name) of each that comes after `after`, and watch for the next."""
    prefix = CONFIG_CHANGE_PREFIX.rpartition("/")[2]
    present = yield from children(CONFIG_CHANGES, watch=True)
    names = [each for each in present if each.startswith(prefix) and each > after]
    paths = [f"{CONFIG_CHANGES}/{each}" for each in names]
    znodes = yield from read_all(paths)
    found: list[tuple[str, str, str]] = []
    for name, path, znode in zip(names, paths, znodes, strict=True):
        if znode is not None and (change := sound(decode_config_change, path, znode.data)) is not None:
            found.append((name, *change))
    return found


def broker_znode(node: str) -> str:
    """Return the znode's name of the dynamic configs of a broker, or of every broker ("")."""
    return node or EVERY_BROKER


def node_of(znode: str) -> str:
    """Return the broker whose configs a znode holds; "" for every broker."""
    return "" if znode == EVERY_BROKER else znode
