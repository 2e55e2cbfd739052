"""Draws the pictures of docs/rebalancing.md: registry, coordinator, generations, two state machines, fail-over.

    python tools/rebalancing_pictures.py

A test compares the files with what this draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
INK, PALE, BLUE, GREEN, RED = "#333", "#f7f7f7", "#eef3fa", "#eaf5ea", "#fbecec"
LINE_HEIGHT = 17


def box(x: float, y: float, width: float, height: float, words: str, fill: str = "#fff", dashed: bool = False) -> str:
    """Draw a box by its left upper corner, with lines of words in its middle; the first one is bold."""
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    rect = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" '
    rect += f'stroke="{INK}"{dash}/>'
    lines = words.split("\n")
    top = y + height / 2 + 5 - LINE_HEIGHT * (len(lines) - 1) / 2
    return rect + "".join(
        text(x + width / 2, top + LINE_HEIGHT * number, line, bold=number == 0) for number, line in enumerate(lines)
    )


def text(x: float, y: float, words: str, *, bold: bool = False, anchor: str = "middle", colour: str = INK) -> str:
    """Draw one line of words."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(words)}</text>'


def arrow(
    x: float, y: float, to_x: float, to_y: float, words: str = "", shift: tuple[float, float] = (0, -6), bend: float = 0
) -> str:
    """Draw an arrow, with words at its middle. `bend` moves the middle to the left of the way, in pixels."""
    way = max(((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 1)
    middle = (x + to_x) / 2 + bend * (to_y - y) / way, (y + to_y) / 2 - bend * (to_x - x) / way
    control = 2 * middle[0] - (x + to_x) / 2, 2 * middle[1] - (y + to_y) / 2
    path = f'<path d="M{x:g} {y:g}Q{control[0]:.1f} {control[1]:.1f} {to_x:g} {to_y:g}" fill="none" stroke="{INK}" '
    label = text(round(middle[0] + shift[0], 1), round(middle[1] + shift[1], 1), words) if words else ""
    return path + 'stroke-width="1.4" marker-end="url(#head)"/>' + label


def registry() -> Iterator[str]:
    """The znodes of a group, and who watches what."""
    yield box(20, 20, 180, 40, "/consumers/old", PALE)
    rows = (
        (90, "ids", "HOST:UUID (ephemeral)", "what it subscribes to; every consumer watches this list", BLUE),
        (150, "owners", "flights/0 (ephemeral)", "HOST:UUID-0: the stream that alone reads the partition", GREEN),
        (210, "offsets", "flights/0 (persistent)", "42: the next record to read", PALE),
    )
    for y, name, child, words, fill in rows:
        yield box(60, y, 110, 36, name, fill)
        yield box(220, y, 210, 36, child, fill)
        yield arrow(170, y + 18, 220, y + 18)
        yield text(445, y + 23, words, anchor="start")
        yield f'<path d="M40 60V{y + 18}H60" fill="none" stroke="{INK}"/>'
    for y, name, words in (
        (280, "/brokers/ids", "every consumer watches this list too"),
        (330, "/brokers/topics/flights", "partitions and replicas; each subscriber watches it"),
    ):
        yield box(20, y, 220, 36, name, PALE)
        yield text(445, y + 23, words, anchor="start")
    yield text(20, 395, "One change fires a watch at every consumer, and each reads all of this again.", anchor="start")


def coordinator() -> Iterator[str]:
    """One round of a group with its coordinator."""
    names = ("member 1 (leader)", "coordinator", "member 2")
    for place, name in zip((110, 400, 690), names, strict=True):
        yield box(place - 90, 16, 180, 36, name, BLUE if name == "coordinator" else PALE)
        yield f'<path d="M{place} 52V396" stroke="#999" stroke-dasharray="4 4"/>'
    yield arrow(110, 90, 396, 90, "Heartbeat, generation 1")
    yield arrow(690, 90, 404, 90, "JoinGroup (a new member)")
    yield arrow(400, 130, 114, 130, "REBALANCE_IN_PROGRESS")
    yield arrow(110, 170, 396, 170, "JoinGroup")
    yield box(310, 184, 180, 32, "generation 2", GREEN)
    yield arrow(400, 245, 114, 245, "all members and subscriptions")
    yield arrow(400, 245, 686, 245, "generation 2")
    yield arrow(110, 290, 396, 290, "SyncGroup: every part")
    yield arrow(690, 290, 404, 290, "SyncGroup: nothing")
    yield box(310, 302, 180, 32, "written to the log", GREEN)
    yield arrow(400, 365, 114, 365, "its part")
    yield arrow(400, 365, 686, 365, "its part")


def generations() -> Iterator[str]:
    """Three generations of a group, and a commit that comes too late."""
    parts = (
        (20, "generation 1", ("member 1", "member 2", "member 3")),
        (290, "generation 2", ("member 1", "member 3")),
        (560, "generation 3", ("member 1", "member 3", "member 4")),
    )
    for x, name, members in parts:
        yield f'<rect x="{x}" y="20" width="200" height="190" rx="10" fill="{PALE}" stroke="#999"/>'
        yield text(x + 100, 44, name, bold=True)
        for number, member in enumerate(members):
            yield box(x + 35, 60 + 46 * number, 130, 34, member, BLUE)
    yield arrow(220, 115, 290, 115)
    yield text(255, 102, "2 leaves")
    yield arrow(490, 115, 560, 115)
    yield text(525, 102, "4 joins")
    yield arrow(120, 210, 230, 284, "", bend=-12)
    yield box(230, 262, 330, 44, "member 3 slept, and commits for generation 1:\nILLEGAL_GENERATION", RED)


def consumer_states() -> Iterator[str]:
    """The consumer's states, as the first design of the coordinator had them."""
    yield box(20, 120, 100, 44, "Down")
    yield box(190, 110, 190, 64, "Start up and\ndiscover the coordinator")
    yield box(480, 110, 170, 64, "Part of a group\nheartbeats, fetches", GREEN)
    yield box(480, 250, 170, 56, "Stopped consumption\ncommits its offsets", RED)
    yield box(760, 114, 190, 56, "Rediscover coordinator\ngoes on fetching", BLUE)
    yield arrow(120, 142, 190, 142, "start")
    yield arrow(380, 142, 480, 142, "JoinGroup")
    yield arrow(540, 174, 540, 250, "rebalance", (-40, 4))
    yield arrow(590, 250, 590, 174, "joined again", (46, 4))
    yield arrow(650, 130, 760, 130, "lost, or moved", (0, -12), 12)
    yield arrow(760, 156, 650, 156, "found", (0, 16), 12)
    yield arrow(565, 110, 70, 120, "close, or failure", (0, -6), -60)


def coordinator_states() -> Iterator[str]:
    """The coordinator's states, as its first design had them."""
    yield box(20, 120, 110, 44, "Down")
    yield box(210, 110, 170, 64, "Catch up\nloads its groups", BLUE)
    yield box(470, 110, 150, 64, "Ready", GREEN)
    yield box(720, 40, 210, 64, "Prepare for rebalance\nheartbeats say so", RED)
    yield box(720, 190, 210, 64, "Rebalancing\nnew generation, new parts", RED)
    yield arrow(130, 142, 210, 142, "elected")
    yield arrow(380, 142, 470, 142, "loaded")
    yield arrow(600, 110, 720, 72, "a change", (-22, -8))
    yield arrow(825, 104, 825, 190, "all have joined", (58, 4))
    yield arrow(720, 222, 600, 174, "all heartbeats name it", (-64, 24))
    yield arrow(500, 110, 75, 120, "moved, or failure", (0, -6), -66)


# What the coordinator does, and what the next one does if it fails there.
STAGES = (
    (
        "1 notices\na change of members\nor partitions",
        "The new one compares the\ngroup with what it loaded,\nand begins a rebalance.",
    ),
    (
        "2 tells\nheartbeats are answered\nREBALANCE_IN_PROGRESS",
        "Some members know. The\nothers learn it from the\nnew one; it begins again.",
    ),
    ("3 collects\nmembers send\nJoinGroup", "Some have joined. All\njoin again, at the\nnew one."),
    (
        "4 writes\ngeneration and parts\ngo to the log",
        "Both are written, or none.\nHeartbeats of an old\ngeneration are rejected.",
    ),
    (
        "5 answers\nmembers get\ntheir parts",
        "A member with its part\ngoes on. One without\njoins again, so all do.",
    ),
)


def failover() -> Iterator[str]:
    """A coordinator that fails at each stage of a rebalance, and what the next one does."""
    yield text(20, 24, "The coordinator", bold=True, anchor="start")
    yield text(122, 152, "fails here: the next one", bold=True, anchor="start")
    for number, (does, after) in enumerate(STAGES):
        x = 20 + 196 * number
        yield box(x, 40, 180, 74, does, BLUE)
        if number:
            yield arrow(x - 16, 77, x, 77)
        yield arrow(x + 90, 114, x + 90, 178)
        yield f'<rect x="{x}" y="178" width="180" height="76" rx="8" fill="{GREEN}" stroke="{INK}"/>'
        for line_number, line in enumerate(after.split("\n")):
            yield text(x + 90, 204 + 18 * line_number, line)


Draw = Callable[[], Iterator[str]]
# Name -> title, size, and what is in it.
PICTURES: dict[str, tuple[str, tuple[int, int], Draw]] = {
    "rebalancing-registry": ("A group in ZooKeeper", (860, 410), registry),
    "rebalancing-coordinator": ("A group and its coordinator", (800, 410), coordinator),
    "rebalancing-generations": ("Generations of a group", (790, 325), generations),
    "rebalancing-consumer": ("The states of a consumer", (970, 325), consumer_states),
    "rebalancing-states": ("The states of a coordinator", (960, 275), coordinator_states),
    "rebalancing-failover": ("A coordinator that fails in a rebalance", (1000, 270), failover),
}


def svg(name: str) -> str:
    """Return one picture."""
    title, (width, height), draw = PICTURES[name]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        '     font-family="Helvetica, Arial, sans-serif" font-size="13">',
        "<!-- Drawn by tools/rebalancing_pictures.py: change that. -->",
        f"<title>{escape(title)}</title>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *draw(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write every picture."""
    for name in PICTURES:
        (DOCS / f"{name}.svg").write_text(svg(name), encoding="utf-8")


if __name__ == "__main__":
    main()
