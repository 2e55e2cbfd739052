"""Print docs/options.md, made from the table in client/core/option_table.py.

    python tools/option_docs.py > docs/options.md

A test fails if the file differs from what this prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.client.core.option_table import OPTIONS, SPARK_OPTIONS, TAKERS, Option
from odradek.client.core.option_values import Values

INTRO = """\
# Options

`tools/option_docs.py` makes this page from the table in `client/core/option_table.py`: change that. A value that an
option cannot have is rejected by name, before anything is sent.

## Options of clients

Python's clients take these names. `-X` and profiles of the command line take Kafka's names, with dots:
`fetch_min_bytes` is `fetch.min.bytes`; Spark's options have `kafka.` before it. The blocking clients take what the
asyncio clients take. [The client](client.md) says how options work together.
"""
SPARK = """
## Options of Spark's source and sink

[Spark](spark.md) says how they work together.
"""


def main() -> None:
    print(INTRO)
    table(OPTIONS.values())
    print(SPARK)
    table(SPARK_OPTIONS.values())


def table(rows: Iterable[Option]) -> None:
    print("| option | values | default | taken by | meaning |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        print(f"| `{row.name}` | {values(row.values)} | {defaults(row)} | {takers(row)} | {meaning(row)} |")


def values(given: Values) -> str:
    return str(given).replace("|", "\\|")


def defaults(row: Option) -> str:
    others = {taker: code(default) for taker, default in row.own.items()}
    return "; ".join([code(row.default), *(f"{TAKERS[taker]}: {default}" for taker, default in others.items())])


def code(default: Any) -> str:
    if isinstance(default, tuple):
        default = ", ".join(default) or None
    return "" if default is None else f"`{default}`"


def takers(row: Option) -> str:
    return ", ".join(TAKERS[each] for each in row.takers.split())


def meaning(row: Option) -> str:
    others = ", ".join(f"`{name}`" for name in row.others.split())
    return row.meaning + (f" ({others} elsewhere)" if others else "")


main()
