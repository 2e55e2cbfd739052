"""Measure the command line beside kcat: a million short lines into a topic and out of it again.

    python -m benchmarks --only cli

Both talk to the same broker, in turn; each time is that of the whole process. The goal is 1.5 times kcat's time.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from .brokers import Odradek

KCAT = shutil.which("kcat")
LINES = 1_000_000
# How much longer than kcat a command may take.
GOAL = 1.5


def measure(folder: Path, rounds: int, lines: int = LINES) -> dict[str, tuple[float, float]]:
    """Return the medians in seconds of ours and of kcat, for "in" and "out". Checks that every line comes back."""
    assert KCAT is not None
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "lines"
    text.write_bytes(b"".join(b"%d\n" % number for number in range(lines)))
    broker = Odradek(folder / "broker")
    broker.start()
    ours = [sys.executable, "-m", "odradek"]
    kcat = [KCAT, "-q", "-b", broker.address]
    figures: dict[str, tuple[list[float], list[float]]] = {"in": ([], []), "out": ([], [])}
    try:
        nothing = folder / "nothing"
        nothing.touch()
        for command in (
            ["topics", "create", "compiled"],
            ["produce", "compiled"],
            ["consume", "compiled", "--until-end"],
        ):
            _seconds([*ours, *command, "-b", broker.address], nothing, folder)  # compiles the modules
        for number in range(rounds):
            topics = f"ours-{number}", f"kcat-{number}"
            for topic in topics:
                subprocess.run([*ours, "topics", "create", topic, "-b", broker.address], check=True)
            pairs = {
                "in": ([*ours, "produce", topics[0], "-b", broker.address], [*kcat, "-P", "-t", topics[1]]),
                "out": (
                    [*ours, "consume", topics[0], "--until-end", "-b", broker.address],
                    [*kcat, "-C", "-e", "-t", topics[1], "-o", "beginning"],
                ),
            }
            for way, commands in pairs.items():
                for side, command in enumerate(commands):
                    figures[way][side].append(_seconds(command, text, folder))
                    if way == "out" and (folder / "out").stat().st_size != text.stat().st_size:
                        raise AssertionError(f"{command[0]} did not print every line")
    finally:
        broker.remove()
    return {way: (statistics.median(mine), statistics.median(theirs)) for way, (mine, theirs) in figures.items()}


def _seconds(command: list[str], text: Path, folder: Path) -> float:
    # As an installed package has it: Python finds the modules compiled, whatever this shell asks for.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    with text.open("rb") as source, (folder / "out").open("wb") as target:
        began = time.perf_counter()
        subprocess.run(command, stdin=source, stdout=target, check=True, env=environment)
        return time.perf_counter() - began
