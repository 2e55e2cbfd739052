"""The options of a read from texts: `kafka.` with a config of Kafka's clients, and `path`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.option_table import CONFIGS, SPARK_OPTIONS
from ..core.option_values import bootstrap_addresses, read_text
from ..core.security import SECURITY_CONFIGS, SecurityOptions, security_arguments
from ..errors import InvalidOption
from .connection import ReadOptions, ReadPath, client_options


def read_options(texts: Mapping[str, str], reader: str) -> ReadOptions:
    """Return the options that texts give. Raises InvalidOption, also for a name that means nothing to this reader."""
    given: dict[str, Any] = {}
    security: dict[str, str] = {}
    for name, text in texts.items():
        config = name.removeprefix("kafka.")
        row = SPARK_OPTIONS["path"] if name == "path" else CONFIGS.get(config) if config != name else None
        if config in SECURITY_CONFIGS:
            security[config] = text.strip().upper() if config == "security.protocol" else text
            continue
        if row is None or not row.is_of("source"):
            raise InvalidOption(f"{name} is no option of {reader}")
        try:
            given[config] = read_text(row.values, text)
        except ValueError:
            raise InvalidOption(f"{name}: {text!r} is {row.values.rejection()}") from None
    path = ReadPath(given.pop("path", "fetch"))
    servers = given.pop("bootstrap.servers", "")
    given.setdefault("isolation.level", "read_committed")
    options = SecurityOptions(**security_arguments(security))
    return ReadOptions(client_options(bootstrap_addresses(servers), options, given), path=path)
