"""Writes docs/configs.md from the tables in broker/config.py and broker/topic_config.py.

    python tools/config_docs.py > docs/configs.md

A test fails where the file is not what this prints.
"""

from collections.abc import Iterable

from odradek.broker.config import SETTINGS
from odradek.broker.settings import Setting
from odradek.broker.topic_config import NOT_YET, TOPIC_SETTINGS

INTRO = """\
# Configs

Written by `tools/config_docs.py` from the tables in `broker/config.py` and `broker/topic_config.py`: change those.

Names, types and ranges are Kafka 4.3.1's. A config that is listed as acted on changes what the broker does. Another
of Kafka's names is a warning at start; a value out of range is refused with its name, its range and the value given.

## Broker configs

For `odradek serve --set NAME=VALUE` or a `server.properties` file given with `--config`. `authorizer.class.name` is
refused: there is no authorizer yet, and a broker that should refuse must not start open.
"""
TOPICS = """
## Topic configs that are acted on

Given when a topic is created; what is not given comes from the broker's config in the last column.
"""
PENDING = """
## Topic configs that are not acted on yet

Shown by DescribeConfigs with the value that is true today. Asking for any other value is refused with INVALID_CONFIG.
"""


def main() -> None:
    print(INTRO)
    table(("Config", "Type", "Range", "Default", "What it does"), map(broker_row, SETTINGS.values()))
    print(TOPICS)
    table(("Config", "Type", "Range", "Default", "What it does", "From"), map(topic_row, TOPIC_SETTINGS.values()))
    print(PENDING)
    table(("Config", "Type", "What holds", "What it means"), map(pending_row, NOT_YET.values()))


def broker_row(setting: Setting) -> tuple[str, ...]:
    return code(setting.name), setting.kind.name, setting.range_text, code(setting.format(setting.default)), setting.doc


def topic_row(setting: Setting) -> tuple[str, ...]:
    return *broker_row(setting), ", ".join(code(name) for name, _ in setting.broker_synonyms)


def pending_row(setting: Setting) -> tuple[str, ...]:
    return code(setting.name), setting.kind.name, code(setting.format(setting.default)), setting.doc


def code(text: str | None) -> str:
    return "unset" if text is None else f"`{text}`" if text else "empty"


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    print("| " + " | ".join(titles) + " |")
    print("|" + " --- |" * len(titles))
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")


main()
