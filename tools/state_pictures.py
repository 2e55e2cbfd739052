"""Draws docs/transactions.svg and docs/groups.svg: the states of a transactional id and of a group, and their moves.

    python tools/state_pictures.py

The moves come from the tables LEGAL in `states.py` of broker/coordination/transactions and groups. This file adds
places and words. A move without an arrow is an error, and so is an arrow without a move: the picture shows what the
machine does. A test compares the files with what this draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from html import escape
from math import hypot
from pathlib import Path

from odradek.broker.coordination.groups import states as groups
from odradek.broker.coordination.groups.states import GroupState as G
from odradek.broker.coordination.transactions import states as transactions
from odradek.broker.coordination.transactions.states import TransactionState as T

DOCS = Path(__file__).parents[1] / "docs"
BOX_WIDTH, BOX_HEIGHT = 168, 40
FRAME_MARGIN = 26
MEMORY = "#eef3fa"
LOG = "#ffffff"
Point = tuple[float, float]


@dataclass(frozen=True)
class Arrow:
    """One move. With several `sources` it is one move of each, drawn from the frame around them."""

    sources: tuple[Enum, ...]
    target: Enum
    words: str
    # The distance of its middle from the straight line, to the left, in pixels.
    bend: float = 0
    # The place of the words, from the middle.
    shift: Point = (0, -6)
    # Two moves, there and back, that only a replay makes.
    both_ways_in_replay: bool = False
    # The point where it leaves a frame.
    start: Point | None = None


@dataclass(frozen=True)
class Picture:
    name: str
    title: str
    legal: Mapping[Enum, frozenset[Enum]]
    places: Mapping[Enum, Point]
    in_memory: frozenset[Enum]
    arrows: tuple[Arrow, ...]
    size: tuple[int, int]
    frame: tuple[Enum, ...] = ()


_IDLE = (T.EMPTY, T.COMPLETE_COMMIT, T.COMPLETE_ABORT)
TRANSACTIONS = Picture(
    "transactions",
    "The states of a transactional id",
    transactions.LEGAL,
    {
        T.COMPLETE_COMMIT: (130, 80),
        T.EMPTY: (130, 240),
        T.COMPLETE_ABORT: (130, 400),
        T.DEAD: (130, 510),
        T.ONGOING: (460, 240),
        T.PREPARE_COMMIT: (800, 80),
        T.PREPARE_EPOCH_FENCE: (800, 240),
        T.PREPARE_ABORT: (800, 400),
    },
    frozenset({T.PREPARE_EPOCH_FENCE}),
    (
        Arrow(_IDLE, T.ONGOING, "partitions added", start=(240, 240), shift=(-20, -6)),
        Arrow(_IDLE, T.PREPARE_ABORT, "EndTxn: abort of nothing", start=(240, 340), shift=(-70, 16)),
        Arrow(_IDLE, T.DEAD, "expired", start=(130, 446), shift=(34, 8)),
        Arrow((T.COMPLETE_COMMIT,), T.EMPTY, "InitProducerId", shift=(0, 4)),
        Arrow((T.COMPLETE_ABORT,), T.EMPTY, "InitProducerId", shift=(0, 4)),
        Arrow((T.EMPTY,), T.EMPTY, "", shift=(0, 0)),
        Arrow((T.ONGOING,), T.ONGOING, "partitions added"),
        Arrow((T.ONGOING,), T.PREPARE_COMMIT, "EndTxn: commit", shift=(-58, -4)),
        Arrow((T.ONGOING,), T.PREPARE_ABORT, "EndTxn: abort", shift=(-56, 12)),
        Arrow((T.ONGOING,), T.PREPARE_EPOCH_FENCE, "time-out, new owner", bend=26, shift=(24, -6)),
        Arrow((T.PREPARE_EPOCH_FENCE,), T.ONGOING, "record not written", bend=26, shift=(10, 16)),
        Arrow((T.PREPARE_EPOCH_FENCE,), T.PREPARE_ABORT, "record written", shift=(0, 4)),
        Arrow((T.PREPARE_COMMIT,), T.COMPLETE_COMMIT, "every marker is written"),
        Arrow((T.PREPARE_ABORT,), T.COMPLETE_ABORT, "every marker is written", shift=(0, 16)),
    ),
    (920, 560),
    frame=_IDLE,
)

GROUPS = Picture(
    "groups",
    "The states of a group",
    groups.LEGAL,
    {
        G.EMPTY: (110, 190),
        G.PREPARING_REBALANCE: (390, 190),
        G.COMPLETING_REBALANCE: (720, 190),
        G.STABLE: (1070, 190),
        G.DEAD: (555, 350),
    },
    frozenset({G.PREPARING_REBALANCE, G.COMPLETING_REBALANCE}),
    (
        Arrow((G.EMPTY,), G.PREPARING_REBALANCE, "join", bend=22),
        Arrow((G.PREPARING_REBALANCE,), G.EMPTY, "nobody is left", bend=22, shift=(0, 16)),
        Arrow((G.PREPARING_REBALANCE,), G.COMPLETING_REBALANCE, "all came, or time is up", bend=22, shift=(0, 17)),
        Arrow((G.COMPLETING_REBALANCE,), G.PREPARING_REBALANCE, "membership changed", bend=22, shift=(0, 16)),
        Arrow((G.COMPLETING_REBALANCE,), G.STABLE, "assignment written"),
        Arrow((G.STABLE,), G.PREPARING_REBALANCE, "join, leave, expiry, new metadata", bend=-72, shift=(-14, -5)),
        Arrow((G.EMPTY,), G.STABLE, "only in a replay", bend=120, both_ways_in_replay=True),
        Arrow((G.EMPTY,), G.DEAD, "deleted, or offsets expired", bend=-30, shift=(-90, 16)),
        Arrow((G.PREPARING_REBALANCE,), G.DEAD, "moved away", shift=(-38, 0)),
        Arrow((G.COMPLETING_REBALANCE,), G.DEAD, "moved away", shift=(38, 0)),
        Arrow((G.STABLE,), G.DEAD, "moved away", bend=30, shift=(40, 16)),
    ),
    (1170, 420),
)


def check(picture: Picture) -> None:
    """Check that each move of the table has an arrow, and each arrow a move."""
    drawn = {(source, arrow.target) for arrow in picture.arrows for source in arrow.sources}
    drawn |= {(arrow.target, arrow.sources[0]) for arrow in picture.arrows if arrow.both_ways_in_replay}
    legal = {(source, target) for source, targets in picture.legal.items() for target in targets}
    if drawn != legal:
        raise SystemExit(f"{picture.name}: not drawn {legal - drawn}, not legal {drawn - legal}")


def svg(picture: Picture) -> str:
    check(picture)
    width, height = picture.size
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        '     font-family="Helvetica, Arial, sans-serif" font-size="13" text-anchor="middle">',
        "<!-- Drawn by tools/state_pictures.py from the table of legal moves: change that. -->",
        f"<title>{escape(picture.title)}</title>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="#333"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *frame(picture),
        *(line for arrow in picture.arrows for line in draw(arrow, picture)),
        *(box(state, place, state in picture.in_memory) for state, place in picture.places.items()),
        *legend(picture),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def frame(picture: Picture) -> Iterator[str]:
    """Draw a frame around states that have the same moves."""
    if picture.frame:
        places = [picture.places[state] for state in picture.frame]
        left, top = min(x for x, _ in places) - BOX_WIDTH / 2, min(y for _, y in places) - BOX_HEIGHT / 2
        right, bottom = max(x for x, _ in places) + BOX_WIDTH / 2, max(y for _, y in places) + BOX_HEIGHT / 2
        yield (
            f'<rect x="{left - FRAME_MARGIN:g}" y="{top - FRAME_MARGIN:g}" width="{right - left + 2 * FRAME_MARGIN:g}" '
            f'height="{bottom - top + 2 * FRAME_MARGIN:g}" rx="12" fill="#f7f7f7" stroke="#999"/>'
        )


def box(state: Enum, place: Point, in_memory: bool) -> str:
    x, y = place
    look = f'fill="{MEMORY}" stroke="#333" stroke-dasharray="5 3"' if in_memory else f'fill="{LOG}" stroke="#333"'
    return (
        f'<rect x="{x - BOX_WIDTH / 2:g}" y="{y - BOX_HEIGHT / 2:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8" '
        f'{look} stroke-width="1.5"/><text x="{x:g}" y="{y + 5:g}" font-weight="bold">{state.value}</text>'
    )


def draw(arrow: Arrow, picture: Picture) -> Iterator[str]:
    target = picture.places[arrow.target]
    if arrow.sources == (arrow.target,):
        yield from _loop(arrow, target)
        return
    start = arrow.start or picture.places[arrow.sources[0]]
    way = hypot(target[0] - start[0], target[1] - start[1])
    across = ((target[1] - start[1]) / way, -(target[0] - start[0]) / way)
    control = tuple((a + b) / 2 + 2 * arrow.bend * c for a, b, c in zip(start, target, across, strict=True))
    begin = arrow.start or _edge(start, control)
    end = _edge(target, control)
    path = f"M{_at(begin)}Q{_at(control)} {_at(end)}"
    middle = tuple((a + 2 * c + b) / 4 for a, c, b in zip(begin, control, end, strict=True))
    yield _path(path, arrow.both_ways_in_replay)
    yield _words(arrow, middle)


def _loop(arrow: Arrow, place: Point) -> Iterator[str]:
    x, y = place[0], place[1] - BOX_HEIGHT / 2
    left = place[0] - BOX_WIDTH / 2
    if arrow.words:
        yield _path(f"M{x - 22:g} {y:g}C{x - 40:g} {y - 50:g} {x + 40:g} {y - 50:g} {x + 22:g} {y:g}", False)
        yield _words(arrow, (x, y - 38))
    else:
        yield _path(f"M{left:g} {y + 12:g}C{left - 22:g} {y + 4:g} {left - 22:g} {y + 36:g} {left:g} {y + 28:g}", False)


def _edge(place: Point, towards: Point) -> Point:
    """Return the point where a line from the middle of a box leaves it."""
    x, y = towards[0] - place[0], towards[1] - place[1]
    part = min(BOX_WIDTH / 2 / abs(x) if x else 1e9, BOX_HEIGHT / 2 / abs(y) if y else 1e9)
    return place[0] + x * part, place[1] + y * part


def _path(path: str, replay: bool) -> str:
    look = ' stroke-dasharray="2 4" marker-start="url(#head)"' if replay else ""
    return f'<path d="{path}" fill="none" stroke="#333" stroke-width="1.4"{look} marker-end="url(#head)"/>'


def _words(arrow: Arrow, middle: Point) -> str:
    x, y = middle[0] + arrow.shift[0], middle[1] + arrow.shift[1]
    halo = 'paint-order="stroke" stroke="#fff" stroke-width="5" stroke-linejoin="round"'
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="#222" {halo}>{escape(arrow.words)}</text>'


def _at(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def legend(picture: Picture) -> Iterator[str]:
    x, y = picture.size[0] - 12, picture.size[1] - 14
    words = "dashed box: only in memory; all others are entered when their record is committed"
    yield f'<text x="{x}" y="{y}" text-anchor="end" font-size="12" fill="#555">{words}</text>'


PICTURES = (TRANSACTIONS, GROUPS)


def main() -> None:
    for picture in PICTURES:
        (DOCS / f"{picture.name}.svg").write_text(svg(picture), encoding="utf-8")


if __name__ == "__main__":
    main()
