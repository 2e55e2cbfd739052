"""Writes docs/configs.md from the tables in broker/configs.

    python tools/config_docs.py > docs/configs.md

A test fails where the file is not what this prints.
"""

from collections.abc import Iterable

from odradek.broker.configs.broker_config import BROKER_CONFIGS
from odradek.broker.configs.definition import ConfigDef
from odradek.broker.configs.topic_config import TOPIC_CONFIGS

INTRO = """\
# Configs

Written by `tools/config_docs.py` from the tables in `broker/configs/`: change those.

Names, types and ranges are Kafka 4.3.1's. A config that is listed as acted on changes what the broker does. Another
of Kafka's names is a warning at start; a value out of range is refused with its name, its range and the value given.

## Broker configs

For `odradek serve --set NAME=VALUE` or a `server.properties` file given with `--config`. Those that change at once can
also be set while the broker runs, for one broker or for every one (`odradek config set`, Kafka's tools); that is kept
in the data directory and is stronger than what is given at start. `authorizer.class.name` is
refused: there is no authorizer yet, and a broker that should refuse must not start open.
"""
TOPICS = """
## Topic configs

All of Kafka's. Given when a topic is created or changed while it is used (`odradek config set --topic`, Kafka's tools,
IncrementalAlterConfigs); what is not given comes from the broker's config in the last column, else it is the default.
A config that is refused is shown by DescribeConfigs with the value that holds; any other value is INVALID_CONFIG.
"""


def main() -> None:
    print(INTRO)
    table(("Config", "Type", "Range", "Default", "Changes", "What it does"), map(broker_row, BROKER_CONFIGS.values()))
    print(TOPICS)
    titles = ("Config", "Type", "Range", "Default", "Acted on", "What it does", "From")
    table(titles, map(topic_row, TOPIC_CONFIGS.values()))


def broker_row(row: ConfigDef) -> tuple[str, ...]:
    return *declared(row), "at once" if row.dynamic else "at start", row.doc


def topic_row(row: ConfigDef) -> tuple[str, ...]:
    acted_on = "yes" if not row.unsupported else f"refused: {row.unsupported}"
    return *declared(row), acted_on, row.doc, ", ".join(code(name) for name in row.broker_synonyms)


def declared(row: ConfigDef) -> tuple[str, ...]:
    return code(row.name), row.type.name, row.range_text, code(row.format(row.default))


def code(text: str | None) -> str:
    return "unset" if text is None else f"`{text}`" if text else "empty"


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    print("| " + " | ".join(titles) + " |")
    print("|" + " --- |" * len(titles))
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")


main()
