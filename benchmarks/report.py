"""What the reports of the benchmarks share: tables in Markdown, where they were measured, and the option --write."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path


def arguments(text: str | None, results: Path, name: str | None = None) -> argparse.ArgumentParser:
    """Return a parser that shows a module's text, and has --write: the file of the results, None without."""
    parser = argparse.ArgumentParser(name, description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_const", const=results, help=f"write {results.name}")
    return parser


def publish(text: str, results: Path | None) -> None:
    """Print a report, and write it into the file of the results, if there is one."""
    print(text)
    if results is not None:
        results.write_text(text.rstrip("\n") + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, whose rows may be shorter than its head."""
    lines = [head, ["---"] * len(head), *([*each, *[""] * (len(head) - len(each))] for each in rows)]
    return "".join(f"| {' | '.join(each)} |\n" for each in lines)


def marked(text: str, is_reached: bool) -> str:
    """Return a figure, in bold where its goal is not reached."""
    return text if is_reached else f"**{text}**"


def place() -> str:
    """Return when and where something is measured."""
    cores = len(os.sched_getaffinity(0))
    where = f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}"
    return f"{datetime.datetime.now(datetime.UTC).date()}, {where}"
