"""Rates: what was used of late, and how long one waits who has used too much. The arithmetic is Kafka's.

A `Rate` counts in samples of `sample_ms`. Usage that is noted after the last sample's time starts a new one, and a
sample counts until nothing was noted in it for as long as all samples together last. The rate is the sum over the time
since the oldest sample began, which is never taken for less than all samples but one: so a burst may use in a moment
what the quota allows in ten seconds.

A `TokenBucket` fills with the quota, and what is taken may exceed what is in it once. Times are in milliseconds of any
clock that does not go back.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

# What a response has room for.
MAX_MS: Final = 2**31 - 1


class _Sample:
    __slots__ = ("began_ms", "last_ms", "sum")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.sum = 0.0


class Rate:
    """The rate of one user of a quota, per second."""

    __slots__ = ("_least_samples", "_sample_ms", "_samples", "_window_ms")

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._sample_ms = sample_ms
        self._least_samples = samples - 1
        self._window_ms = samples * sample_ms
        # The oldest one first. Kafka keeps one more than it is told to.
        self._samples: deque[_Sample] = deque(maxlen=samples + 1)

    def record(self, value: float, now_ms: int) -> None:
        """Count what was used; a negative value takes back what was counted and not used."""
        samples = self._samples
        if not samples or now_ms - samples[-1].began_ms >= self._sample_ms:
            samples.append(_Sample(now_ms))
        samples[-1].sum += value
        samples[-1].last_ms = now_ms

    def excess_ms(self, bound: float, now_ms: int) -> int:
        """Return after how long the rate is within the bound if nothing more is used; 0: it is."""
        while self._samples and now_ms - self._samples[0].last_ms >= self._window_ms:
            self._samples.popleft()
        if not self._samples:
            return 0
        period_ms = self._period_ms(now_ms)
        rate = sum(sample.sum for sample in self._samples) * 1000 / period_ms
        return _time_ms(rate - bound, bound, period_ms) if rate > bound else 0

    def _period_ms(self, now_ms: int) -> int:
        passed_ms = now_ms - self._samples[0].began_ms
        missing = self._least_samples - passed_ms // self._sample_ms
        return max(passed_ms + max(missing, 0) * self._sample_ms, 1)


class TokenBucket:
    """What one user of a quota may still take. It begins full."""

    __slots__ = ("_filled_ms", "_samples_s", "_tokens")

    def __init__(self, samples: int, sample_ms: int) -> None:
        """A full bucket has what the quota allows in the time of all samples."""
        self._samples_s = samples * sample_ms / 1000
        self._tokens: float | None = None
        self._filled_ms = 0

    def take(self, value: float, bound: float, now_ms: int) -> None:
        """Take something, also more than there is."""
        self._fill(bound, now_ms)
        assert self._tokens is not None
        self._tokens = min(self._tokens - value, bound * self._samples_s)

    def excess_ms(self, bound: float, now_ms: int) -> int:
        """Return after how long there is no debt any more; 0: there is none."""
        self._fill(bound, now_ms)
        assert self._tokens is not None
        return max(_time_ms(-self._tokens, bound, 1000), 1) if self._tokens < 0 else 0

    def _fill(self, bound: float, now_ms: int) -> None:
        most = bound * self._samples_s
        tokens = most if self._tokens is None else self._tokens + bound * (now_ms - self._filled_ms) / 1000
        self._tokens, self._filled_ms = min(tokens, most), now_ms


def _time_ms(excess: float, bound: float, period_ms: int) -> int:
    """Return in how much time the bound makes up for an excess. Kafka 3.9 accepts a quota of 0, which never does."""
    periods = excess / bound if bound > 0 else math.inf
    return round(min(periods * period_ms, MAX_MS))
