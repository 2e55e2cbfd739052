"""UpdateFeatures: every kind of change of transaction.version, every error, and the ApiVersions afterwards."""

from __future__ import annotations

import time
from typing import Any

from ..connection import Wire
from .configs import UNTIL_IT_HOLDS_S

NAME = "transaction.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def run(wire: Wire) -> None:
    for version in (0, 1, 2):
        refused(wire, version)
    for version in (1, 2):
        for how in (SAFE, UNSAFE):
            ask(wire, f"down {how}", version, update(1, how), ValidateOnly=True)
            ask(wire, f"down {how}", version, update(1, how))
            ask(wire, "the same, lower", version, update(1))
            ask(wire, "up as a downgrade", version, update(2, how))
            ask(wire, "up", version, update(2))


def refused(wire: Wire, version: int) -> None:
    ask(wire, "nothing", version)
    ask(wire, "as it is", version, update(2))
    ask(wire, "above", version, update(3))
    ask(wire, "lower", version, update(1))
    ask(wire, "negative", version, update(-1, UNSAFE))
    ask(wire, "unknown", version, update(1, name="no.such"))
    ask(wire, "unknown to 0", version, update(0, UNSAFE, "no.such"))
    ask(wire, "without a name", version, update(1, name=""))
    ask(wire, "good and bad", version, update(2), update(1, name="no.such"))
    if version == 0:
        return
    for how in (SAFE, UNSAFE):
        ask(wire, f"as it is, {how}", version, update(2, how))
        ask(wire, f"above, {how}", version, update(3, how))
    for how in (0, 4, -1):
        ask(wire, f"kind {how}", version, update(1, how))
    ask(wire, "twice", version, update(1, SAFE), update(2))


def update(level: int, how: int = UPGRADE, name: str = NAME) -> dict[str, Any]:
    return {"Feature": name, "MaxVersionLevel": level, "UpgradeType": how}


def ask(wire: Wire, case: str, version: int, *updates: dict[str, Any], **fields: Any) -> None:
    kept = [{key: value for key, value in each.items() if version or key != "UpgradeType"} for each in updates]
    body = {"timeoutMs": 10_000, "FeatureUpdates": kept, **fields}
    wire.ask(case, "UpdateFeatures", version, body)
    if fields or not updates or updates[0]["MaxVersionLevel"] not in (1, 2):
        return
    time.sleep(UNTIL_IT_HOLDS_S)
    software = {"ClientSoftwareName": "wire", "ClientSoftwareVersion": "1"}
    told = wire.quiet.ask("", "ApiVersions", 4, software)["FinalizedFeatures"]
    # The others are not to be compared: each broker has its own.
    level = next((each["MaxVersionLevel"] for each in told if each["Name"] == NAME), 0)
    wire.exchanges[-1].body["Level"] = level
