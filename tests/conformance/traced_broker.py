"""`odradek serve`, noting what its clients ask: python traced_broker.py FILE serve ...

FILE gets a line "key version client-id" for each (key, version, client) that asks for the first time and is answered.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TextIO

from odradek.broker.network import dispatcher as dispatch
from odradek.cli import main
from odradek.protocol import frame

# What is kept to know what is new: more clients than this are not told apart.
MAX_SEEN = 10_000


def listen(trace: TextIO) -> None:
    answer = dispatch.Dispatcher.__call__
    seen: set[tuple[int, int, str]] = set()

    def noted(self: Any, connection: Any, data: memoryview) -> Any:
        result = answer(self, connection, data)  # raises where there is no answer
        note(frame.decode_request_header(data)[0])
        return result

    def note(header: frame.RequestHeader) -> None:
        one = (header.api_key, header.api_version, header.client_id or "")
        if one not in seen:
            seen.add(one)
            trace.write(f"{one[0]} {one[1]} {one[2]}\n")
            trace.flush()

    dispatch.Dispatcher.__call__ = noted  # type: ignore[method-assign]


if __name__ == "__main__":
    path = Path(sys.argv.pop(1))
    listen(path.open("a"))
    main()
