"""The series of a chart, as JSON: times in seconds, and a row of numbers for each name."""

from __future__ import annotations

import json

from ...web.exchange import HttpError, Response
from ..history.history import LAG, LAG_S, RATE, SIZE
from ..visit import Visit

_KINDS = {"rate": (RATE,), "size": (SIZE,), "lag": (LAG, LAG_S)}


async def series(visit: Visit) -> Response:
    """Return the series of a kind, of a topic or a group; of the whole cluster without a name."""
    kind, of = visit.text("kind"), visit.text("of")
    if kind not in _KINDS:
        raise HttpError(400, f"kind is one of {', '.join(_KINDS)}")
    times_ms, rows = await visit.history.series(_KINDS[kind], of)
    found = {
        "times": [each / 1000 for each in times_ms],
        "series": [{"name": name, "values": row} for name, row in zip(_KINDS[kind], rows, strict=True)],
    }
    return Response(200, json.dumps(found).encode(), "application/json")
