"""Writes docs/configs.md from the tables in broker/configs.

    python tools/config_docs.py > docs/configs.md

A test fails where the file is not what this prints.
"""

from collections.abc import Iterable

from odradek.broker.configs.broker_config import SETTINGS
from odradek.broker.configs.settings import Setting
from odradek.broker.configs.topic_config import EVERY_TOPIC_SETTING, WHY_NOT

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
    table(("Config", "Type", "Range", "Default", "Changes", "What it does"), map(broker_row, SETTINGS.values()))
    print(TOPICS)
    titles = ("Config", "Type", "Range", "Default", "Acted on", "What it does", "From")
    table(titles, map(topic_row, EVERY_TOPIC_SETTING.values()))


def broker_row(setting: Setting) -> tuple[str, ...]:
    return *declared(setting), "at once" if setting.dynamic else "at start", setting.doc


def topic_row(setting: Setting) -> tuple[str, ...]:
    acted_on = "yes" if setting.acted_on else f"refused: {WHY_NOT[setting.name]}"
    return *declared(setting), acted_on, setting.doc, ", ".join(code(name) for name, _ in setting.broker_synonyms)


def declared(setting: Setting) -> tuple[str, ...]:
    return code(setting.name), setting.kind.name, setting.range_text, code(setting.format(setting.default))


def code(text: str | None) -> str:
    return "unset" if text is None else f"`{text}`" if text else "empty"


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    print("| " + " | ".join(titles) + " |")
    print("|" + " --- |" * len(titles))
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")


main()
