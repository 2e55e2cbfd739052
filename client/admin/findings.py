"""Findings of checks: what each has found, how bad it is, and what to do; among them what brokers tell of themselves.

Brokers of Odradek tell of their clocks, and of damage in their logs (OdradekDescribeBroker, 30013). Other brokers have
no words for either, and are named as unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...protocol.messages.odradek_describe_broker import OdradekDescribeBrokerRequest, OdradekDescribeBrokerResponse
from ..core.cluster import Cluster
from ..errors import KafkaError, UnsupportedVersion, raise_error

# "unknown": the cluster cannot tell.
OK, UNKNOWN, WARNING, PROBLEM = "ok", "unknown", "warning", "problem"
# How many of those concerned a finding names.
_NAMED = 3
# Clocks that NTP sets differ by milliseconds. Transactions, tokens and retention bear seconds.
_APART_S = 2.0
_NOT_ODRADEK = "a broker that is not Odradek does not tell"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: ok, unknown, warning or problem. A warning and a problem have a remedy: what to do."""

    check: str
    result: str
    finding: str
    remedy: str | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be done now."""
        return self.result != PROBLEM


def found_or_fine(check: str, result: str, what: str, fine: str, remedy: str) -> Finding:
    """Return a finding with this result; where `what` is empty, one that says that all is fine."""
    return Finding(check, result, what, remedy) if what else Finding(check, OK, fine)


def named(what: str, names: Sequence[str]) -> str:
    """Return how many there are, and the first names; "" for none."""
    if not names:
        return ""
    more = ", ..." if len(names) > _NAMED else ""
    return f"{len(names)} {what}: {', '.join(names[:_NAMED])}{more}"


def duration_text(seconds: float) -> str:
    """Return a time in the largest unit that it has two of: "3 hours"."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"


# -- What brokers tell


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What one broker has told; `why_not` says why it has not."""

    node_id: int
    why_not: str = ""
    # By how much its clock is ahead of this machine's, and by how much the way there and back may have falsified that.
    ahead_s: float = 0.0
    within_s: float = 0.0
    damaged_places: int = 0
    # TOPIC-PARTITION of the first ones.
    damaged: tuple[str, ...] = ()


async def ask_brokers(cluster: Cluster) -> list[BrokerReport]:
    """Return the report of each broker. Raises NoBrokerReachable."""
    await cluster.refresh()
    return [await _ask(cluster, node_id) for node_id in sorted(cluster.view.nodes)]


async def _ask(cluster: Cluster, node_id: int) -> BrokerReport:
    try:
        connection = await cluster.connection(node_id)  # first: to open one takes longer than an answer
        sent_s = time.time()
        response = await connection.request(OdradekDescribeBrokerRequest(), OdradekDescribeBrokerResponse)
        received_s = time.time()
        raise_error(response.error_code, response.error_message, f"{connection.address} does not describe itself")
    except UnsupportedVersion:
        return BrokerReport(node_id, _NOT_ODRADEK)
    except KafkaError as error:
        return BrokerReport(node_id, error.message)
    damaged = tuple(f"{each.topic}-{each.partition}" for each in response.damaged)
    ahead_s = response.time_ms / 1000 - (sent_s + received_s) / 2
    return BrokerReport(node_id, "", ahead_s, abs(received_s - sent_s) / 2, response.damaged_places, damaged)


def check_clocks(reports: Sequence[BrokerReport]) -> Iterator[Finding]:
    """Yield whether the clocks of the brokers agree, with each other and with this machine's."""
    known = [each for each in reports if not each.why_not]
    apart = [
        f"that of broker {each.node_id} is {_ahead(each.ahead_s)} this machine's"
        for each in known
        if abs(each.ahead_s) - each.within_s > _APART_S
    ]
    if len(known) > 1:
        by_clock = sorted(known, key=lambda each: each.ahead_s)
        last, first = by_clock[0], by_clock[-1]
        between_s = first.ahead_s - last.ahead_s
        if between_s - first.within_s - last.within_s > _APART_S:
            apart.append(f"that of broker {first.node_id} is {_ahead(between_s)} that of broker {last.node_id}")
    widest_s = max((abs(each.ahead_s) for each in known), default=0.0)
    fine = f"at most {widest_s:.1f} s from this machine's"
    how = "set the clocks by NTP (chrony, systemd-timesyncd), on this machine too"
    if known:
        yield found_or_fine("clocks", WARNING, "; ".join(apart[:_NAMED]), fine, how)
    yield from _untold("clocks", reports)


def check_damage(reports: Sequence[BrokerReport]) -> Iterator[Finding]:
    """Yield whether brokers have found damage in their logs."""
    names = [f"{name} of broker {each.node_id}" for each in reports for name in each.damaged]
    how = "these records cannot be read: odradek log verify, and the broker's log, tell file and position"
    if any(not each.why_not for each in reports):
        yield found_or_fine("damage", PROBLEM, named("with damage", names), "none was found", how)
    yield from _untold("damage", reports)


def _untold(check: str, reports: Sequence[BrokerReport]) -> Iterator[Finding]:
    """Yield which brokers have told nothing."""
    silent: dict[str, list[int]] = {}
    for each in reports:
        if each.why_not:
            silent.setdefault(each.why_not, []).append(each.node_id)
    for why, nodes in silent.items():
        yield Finding(check, UNKNOWN, f"of {named('brokers', list(map(str, nodes)))}: {why}")


def _ahead(seconds: float) -> str:
    return f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'}"
