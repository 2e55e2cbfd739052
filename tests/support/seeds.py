"""Which seeds a test takes: few in `make test`, many in `make soak`, which sets ODRADEK_SOAK=1.

A failure names its seed. ODRADEK_SEEDS="7 9" plays these again, in each test that takes seeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

IS_SOAK = os.environ.get("ODRADEK_SOAK") == "1"


def seeds(few: Iterable[int], many: Iterable[int] = ()) -> list[int]:
    """Return the `few` seeds that each run takes, in `make soak` also `many`."""
    chosen = os.environ.get("ODRADEK_SEEDS")
    if chosen is not None:
        return [int(seed) for seed in chosen.split()]
    return list(dict.fromkeys([*few, *(many if IS_SOAK else ())]))


def examples(usual: int) -> int:
    """Return how many examples Hypothesis tries: ten times the usual ones in `make soak`, else a third."""
    return 10 * usual if IS_SOAK else usual // 3
