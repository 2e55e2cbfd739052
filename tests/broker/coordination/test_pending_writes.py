"""Pending writes of transactions, compared with a model that keeps the whole log and reads all of it each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.coordination.replay import Ended, PendingWrites, Replay, Written

KEYS = st.sampled_from([b"a", b"b"])
LOG = st.lists(
    st.one_of(
        st.builds(Written, KEYS, st.binary(max_size=2), st.integers(-1, 2)),
        st.builds(Written, KEYS, st.none(), st.just(-1)),  # a tombstone is never part of a transaction
        st.builds(Ended, st.integers(0, 2), st.booleans()),
    ),
    max_size=25,
)


def model(log: list[Written | Ended]) -> tuple[dict[bytes, bytes | None], set[tuple[int, bytes]]]:
    """Return the value of each key, and the keys that each open transaction has written, from record offsets alone."""
    counted: dict[bytes, tuple[int, bytes | None]] = {}
    pending: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
    for offset, entry in enumerate(log):
        if isinstance(entry, Ended):
            for key, written in pending.pop(entry.producer_id, {}).items():
                if entry.commit and written > counted.get(key, (-1, None)):
                    counted[key] = written
        elif entry.value is None:
            counted[entry.key] = offset, None
            for keys in pending.values():
                keys.pop(entry.key, None)
        elif entry.producer_id >= 0:
            pending.setdefault(entry.producer_id, {})[entry.key] = offset, entry.value
        else:
            counted[entry.key] = offset, entry.value
    return {key: value for key, (_, value) in counted.items()}, {
        (p, key) for p, keys in pending.items() for key in keys
    }


def live(log: list[Written | Ended]) -> tuple[dict[bytes, bytes], PendingWrites[bytes, bytes]]:
    """Take the same records as the offsets of a group do."""
    values: dict[bytes, bytes] = {}
    pending: PendingWrites[bytes, bytes] = PendingWrites()
    for entry in log:
        if isinstance(entry, Ended):
            values.update(pending.end(entry.producer_id, entry.commit))
        elif entry.value is None:
            values.pop(entry.key, None)
            pending.drop(entry.key)
        elif entry.producer_id >= 0:
            pending.put(entry.producer_id, entry.key, entry.value)
        else:
            values[entry.key] = entry.value
            pending.overtake(entry.key)
    return values, pending


@given(LOG)
def test_values_and_pending_writes_are_those_of_the_model(log: list[Written | Ended]) -> None:
    values, pending = live(log)
    counted, undecided = model(log)
    assert values == {key: value for key, value in counted.items() if value is not None}
    written = [*pending.in_order(overtaken=True), *pending.in_order(overtaken=False)]
    assert {(producer_id, key) for producer_id, key, _ in written} == undecided
    assert pending.undecided() == {key for _, key in undecided}
    assert bool(pending) == bool(undecided)
    assert all((key in pending) == any(key == each for _, each in undecided) for key in (b"a", b"b"))


@given(LOG, LOG)
def test_a_restart_between_any_two_records_changes_nothing(before: list[Written | Ended], after: list) -> None:  # type: ignore[type-arg]
    replay = Replay()
    for entry in before:
        replay.take(entry)
    resumed = [*replay.outcome(), *after]
    values, pending = live(resumed)
    expected_values, expected_pending = live(before + after)
    assert values == expected_values
    for overtaken in (True, False):
        assert sorted(pending.in_order(overtaken=overtaken)) == sorted(expected_pending.in_order(overtaken=overtaken))
