"""Print docs/configs.md, made from the tables in broker/configs.

    python tools/config_docs.py > docs/configs.md

A test fails if the file differs from what this prints.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.broker.configs.broker_config import BROKER_CONFIGS
from odradek.broker.configs.definition import ConfigDef
from odradek.broker.configs.topic_config import TOPIC_CONFIGS

INTRO = """\
# Configs

`tools/config_docs.py` makes this page from the tables in `broker/configs/`: change those.

Names, types and ranges are those of Kafka 4.4.0. Every config in these tables changes what the broker does, unless it
says otherwise. Another name of Kafka's is a warning at start, unless Odradek has no need of it (a quorum's, a thread
pool's). A value out of range is an error that gives name, range
and value.

## Broker configs

Set them with `odradek serve --set NAME=VALUE`, or in a `server.properties` file given with `--config`. Configs that
change at once can also be set while the broker runs, for one broker or for all (`odradek config set`, Kafka's tools).
The data directory keeps these values, and they take precedence over those of the start.
"""
TOPICS = """
## Topic configs

These are all topic configs of Kafka. Set them when you create a topic, or later (`odradek config set --topic`, Kafka's
tools, IncrementalAlterConfigs). A config that is not set has the value of the broker config in the last column, or else
the default. Where the column "Acted on" says "rejected", DescribeConfigs shows the default, and any other value is
INVALID_CONFIG.
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
    acted_on = "yes" if not row.unsupported else f"rejected: {row.unsupported}"
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
