"""Draws docs/house.svg: the wings and the broker's rooms as floors, and the ways of a Produce and a Fetch through them.

    python tools/house_picture.py

The rooms and their words come from the code (tools/house.py), their places and the ways from this file. A way that
names a missing module is an error. A test fails if the file differs from what this draws.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import house

PICTURE = house.ROOT / "docs" / "house.svg"

WIDTH, MARGIN, GAP, HEIGHT = 1120, 16, 10, 84
FONT = "font-family='system-ui, sans-serif'"
# Floors from the top; each row's rooms share the width.
FLOORS = (
    ("cli",),
    ("broker/network", "broker/handlers", "broker/background"),
    ("broker/coordination", "broker/coordination/groups", "broker/coordination/transactions"),
    ("broker/topics", "broker/log_dirs", "broker/configs"),
    ("client", "storage"),
    ("protocol", "kernel"),
)
FILLS = {
    "cli": "#f3e8d8",
    "broker": "#dfeaf6",
    "client": "#e4f2e1",
    "storage": "#f6e3e3",
    "protocol": "#ece6f5",
    "kernel": "#f0f0e0",
}


class Way(NamedTuple):
    """The rooms that a request enters, in order, as modules."""

    name: str
    colour: str
    modules: tuple[str, ...]


WAYS = (
    Way(
        "Produce",
        "#b3541e",
        (
            "broker/network/connection.py",
            "broker/network/dispatcher.py",
            "broker/handlers/produce.py",
            "broker/topics/partition.py",
            "storage/log.py",
            "storage/segments/segment.py",
        ),
    ),
    Way(
        "Fetch",
        "#1e5fb3",
        (
            "broker/network/connection.py",
            "broker/network/dispatcher.py",
            "broker/handlers/fetch.py",
            "broker/topics/partition.py",
            "storage/log.py",
        ),
    ),
)


class Box(NamedTuple):
    """The place of a room in the picture."""

    room: str
    x: float
    y: float
    width: float


def boxes() -> list[Box]:
    """Return every room with its place."""
    placed: list[Box] = []
    for row, rooms in enumerate(FLOORS):
        width = (WIDTH - 2 * MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        y = MARGIN + 24 + row * (HEIGHT + GAP)
        placed += [Box(room, MARGIN + index * (width + GAP), y, width) for index, room in enumerate(rooms)]
    return placed


def svg() -> str:
    """Return the picture."""
    placed = boxes()
    height = MARGIN * 2 + 24 + len(FLOORS) * (HEIGHT + GAP)
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' {FONT}>"]
    parts.append(f"<rect width='{WIDTH}' height='{height}' fill='white'/>")
    parts += [_legend(index, way) for index, way in enumerate(WAYS)]
    parts += [_room(box) for box in placed]
    parts += [_stops(index, way, placed) for index, way in enumerate(WAYS)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(index: int, way: Way) -> str:
    x = MARGIN + 8 + index * 170
    return (
        f"<circle cx='{x}' cy='{MARGIN + 6}' r='8' fill='{way.colour}'/>"
        f"<text x='{x + 14}' y='{MARGIN + 11}' font-size='13'>the way of {way.name}</text>"
    )


def _room(box: Box) -> str:
    folder = Path(box.room)
    fill = FILLS[folder.parts[0]]
    says = wrap(house.first_line(folder / "__init__.py"), int(box.width / 6.6))[:2]
    lines = "".join(
        f"<text x='{box.x + 10:.0f}' y='{box.y + 38 + 15 * index:.0f}' font-size='12' fill='#444'>{escape(line)}</text>"
        for index, line in enumerate(says)
    )
    return (
        f"<rect x='{box.x:.0f}' y='{box.y:.0f}' width='{box.width:.0f}' height='{HEIGHT}' rx='6' fill='{fill}' "
        f"stroke='#888'/><text x='{box.x + 10:.0f}' y='{box.y + 20:.0f}' font-size='14' font-weight='600'>"
        f"{box.room}/</text>{lines}"
    )


def _stops(index: int, way: Way, placed: list[Box]) -> str:
    """Number the rooms that a request enters, along the lower edge of each."""
    parts: list[str] = []
    for number, module in enumerate(way.modules, 1):
        if Path(module) not in house.modules():
            sys.exit(f"{way.name} goes through {module}, which is not there: mend WAYS in tools/house_picture.py")
        box = max((each for each in placed if module.startswith(each.room + "/")), key=lambda each: len(each.room))
        before = sum(1 for each in way.modules[: number - 1] if each.startswith(box.room + "/"))
        x, y = box.x + 18 + 90 * index + 21 * before, box.y + HEIGHT - 13
        parts.append(
            f"<circle cx='{x:.0f}' cy='{y:.0f}' r='9' fill='{way.colour}'/><text x='{x:.0f}' y='{y + 4:.0f}' "
            f"font-size='11' fill='white' text-anchor='middle'>{number}</text>"
        )
    return "".join(parts)


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
