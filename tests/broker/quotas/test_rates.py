"""Rates and token buckets by Kafka's arithmetic, on a clock that stands still."""

from __future__ import annotations

from odradek.broker.quotas.rates import Rate, TokenBucket


def rate() -> Rate:
    return Rate(11, 1000)


def test_a_burst_may_use_what_ten_seconds_allow() -> None:
    counted = rate()
    counted.record(1000, 0)
    assert counted.excess_ms(100, 0) == 0
    counted.record(1, 0)
    # 100.1 a second is 0.1 too much over ten seconds: 10 ms.
    assert counted.excess_ms(100, 0) == 10


def test_the_wait_brings_the_rate_back_to_the_bound() -> None:
    counted = rate()
    counted.record(3000, 0)
    assert counted.excess_ms(100, 0) == 20_000
    # Kafka forgets a sample once it has been over for eleven seconds, so the wait may end earlier than it said.
    assert counted.excess_ms(100, 10_999) == round((3000 / 10.999 - 100) / 100 * 10_999)
    assert counted.excess_ms(100, 11_000) == 0


def test_the_period_grows_with_the_samples() -> None:
    counted = rate()
    for second in range(10):
        counted.record(100, second * 1000)
    # Ten samples of 100, of which the first began nine seconds ago: taken for ten.
    assert counted.excess_ms(99, 9_000) == round((100 - 99) / 99 * 10_000)
    counted.record(100, 10_000)
    assert counted.excess_ms(110, 10_000) == 0
    assert counted.excess_ms(109, 10_000) == round((110 - 109) / 109 * 10_000)


def test_what_is_taken_back_does_not_count() -> None:
    counted = rate()
    counted.record(5000, 0)
    counted.record(-5000, 0)
    assert counted.excess_ms(1, 0) == 0


def test_there_are_never_more_samples_than_the_window_has() -> None:
    counted = rate()
    for second in range(1000):
        counted.record(1, second * 1000)
    assert len(counted._samples) <= 12


def test_a_bucket_begins_full_and_may_go_below_zero_once() -> None:
    bucket = TokenBucket(11, 1000)
    assert bucket.excess_ms(2, 0) == 0
    bucket.take(30, 2, 0)
    # 22 were in it, and 2 a second come back.
    assert bucket.excess_ms(2, 0) == 4000
    assert bucket.excess_ms(2, 3999) == 1
    assert bucket.excess_ms(2, 4000) == 0


def test_a_bucket_is_never_more_than_full() -> None:
    bucket = TokenBucket(11, 1000)
    bucket.take(1, 1, 0)
    bucket.take(11, 1, 1_000_000)
    assert bucket.excess_ms(1, 1_000_000) == 0
    bucket.take(1, 1, 1_000_000)
    assert bucket.excess_ms(1, 1_000_000) == 1000
