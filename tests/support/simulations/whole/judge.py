"""The judge: what must be true of a history and of the files of all nodes, whatever the faults were.

Each check yields sentences, one for each violation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .history import History, Place, name_of

Log = list[tuple[int, bytes]]


def judge(
    history: History, logs: Mapping[Place, Log], committed: Mapping[Place, Log], *, lost_power: bool, loses: bool
) -> list[str]:
    """Return the violations. `logs` have every data record of each partition, `committed` those of transactions.

    `lost_power`: a lone broker's machine did. Readers may have seen records that were not on its disk, as of Kafka.
    `loses`: it need not force to disk what it acknowledges.
    """
    return [
        *([] if lost_power else history.seen),
        *([] if loses else _acknowledged(history, logs)),
        *_in_order(logs),
        *_whole(history, committed, loses),
        *([] if lost_power else _prefixes(history, logs, committed)),
        *([] if lost_power else _commits(history)),
    ]


def _acknowledged(history: History, logs: Mapping[Place, Log]) -> Iterator[str]:
    for place, values in history.acknowledged.items():
        there = {value: offset for offset, value in logs[place]}
        for value, offset in values.items():
            if value not in there:
                yield f"{name_of(place)}: the acknowledged record {value!r} (offset {offset}) is lost"
            elif offset >= 0 and there[value] != offset:
                yield f"{name_of(place)}: {value!r} was acknowledged at {offset} and is at {there[value]}"


def _in_order(logs: Mapping[Place, Log]) -> Iterator[str]:
    for place, log in logs.items():
        for value, count in Counter(value for _, value in log).items():
            if count > 1:
                yield f"{name_of(place)}: {value!r} is there {count} times"
        last: dict[bytes, int] = defaultdict(lambda: -1)
        for _, value in log:
            name, _, number = value.partition(b":")
            if number.isdigit():
                if int(number) <= last[name]:
                    yield f"{name_of(place)}: {value!r} comes after {last[name]}"
                last[name] = int(number)


def _whole(history: History, committed: Mapping[Place, Log], loses: bool) -> Iterator[str]:
    there = {(place, value) for place, log in committed.items() for _, value in log}
    for each in history.transactions:
        found = [value for value in each.values if value in there]
        if loses:
            # A coordinator that has lost an abort takes what follows for the same transaction.
            continue
        if each.committed is False and found:
            yield f"transaction {each.name} was aborted, and {len(found)} of its records are seen"
        elif each.committed and len(found) < len(each.values):
            yield f"transaction {each.name} was committed, and {len(each.values) - len(found)} records are missing"
        elif found and len(found) < len(each.values):
            yield f"transaction {each.name} is halved: {len(found)} of {len(each.values)} records are seen"


def _prefixes(history: History, logs: Mapping[Place, Log], committed: Mapping[Place, Log]) -> Iterator[str]:
    for reader, places in history.read.items():
        final = committed if "committed" in reader.split("-") else logs
        for place, read in places.items():
            whole = final[place]
            if read != whole[: len(read)]:
                at = next(
                    (i for i, (one, other) in enumerate(zip(read, whole, strict=False)) if one != other), len(whole)
                )
                after = read[at : at + 2], whole[at : at + 2]
                why = f"at record {at} {after[0]}, the log has {after[1]}"
                yield f"{name_of(place)}: {reader} has read what is no prefix: {why}"


def _commits(history: History) -> Iterator[str]:
    by_place: dict[Place, list[tuple[float, float, int, str]]] = defaultdict(list)
    for each in history.commits:
        by_place[each.place].append((each.ended_s, each.began_s, each.offset, each.member))
    for place, commits in by_place.items():
        highest = 0
        ended: list[tuple[float, int]] = []
        for ended_s, began_s, offset, member in sorted(commits):
            highest = max((before for end, before in ended if end < began_s), default=0)
            if offset < highest:
                yield f"{name_of(place)}: {member} committed {offset} at {began_s:.3f} s, after {highest} was committed"
            ended.append((ended_s, offset))


def check_committed(history: History, place: Place, offset: int) -> Iterator[str]:
    """Check what a group's offset is at the end."""
    highest = max((each.offset for each in history.commits if each.place == place), default=0)
    if offset < highest:
        yield f"{name_of(place)}: the committed offset is {offset}, and {highest} was acknowledged"
    elif offset > 0 and (place, offset) not in history.wanted_commits:
        yield f"{name_of(place)}: nobody has committed {offset}"


def check_replicas(
    folders: Mapping[int, Path], replicas: Mapping[str, set[int]], clean_up_to: Callable[[str], int | None]
) -> Iterator[str]:
    """Check that the logs of all replicas have equal bytes, from where all of them begin.

    Each broker cleans its own compacted logs: `clean_up_to` says how far any has. None: a log is not cleaned.
    """
    for name, brokers in sorted(replicas.items()):
        segments = {each: sorted((folders[each] / name).glob("*.log")) for each in sorted(brokers)}
        start = clean_up_to(name)
        if start is None:
            start = max((int(paths[0].stem) for paths in segments.values() if paths), default=0)
        copies = {each: _from(start, b"".join(path.read_bytes() for path in paths)) for each, paths in segments.items()}
        if len(set(copies.values())) > 1:
            sizes = {f"node{node}": len(content) for node, content in copies.items()}
            yield f"{name}: the replicas differ (bytes: {sizes})"


def _from(start: int, log: bytes) -> bytes:
    """Return the batches of a log from an offset on: leaders and followers delete segments at different times."""
    at = 0
    while at + 12 <= len(log) and int.from_bytes(log[at : at + 8]) < start:
        at += 12 + int.from_bytes(log[at + 8 : at + 12])
    return log[at:]
