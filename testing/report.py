"""What the report of a failed test says of its broker: the last requests and the groups' histories.

The log of a broker in the test's process is in pytest's own section of captured logs.
"""

from __future__ import annotations

from ..protocol.errors import KafkaError
from .controlled_kafka import ControlledKafka
from .process import KafkaProcess
from .remote import Kafka

# A broker that answers nothing must not hold up the report.
_SHOWN_GROUPS = 20


def sections(kafka: Kafka) -> list[tuple[str, str]]:
    """Return the sections of a report: title and text. Empty ones are left out."""
    found: list[tuple[str, str]] = []
    if isinstance(kafka, KafkaProcess):
        found += [("Kafka", kafka.death or ""), ("Kafka's log", kafka.log_text())]
    elif isinstance(kafka, ControlledKafka):
        found += _of_controlled(kafka)
    return [(title, text) for title, text in found if text]


def _of_controlled(kafka: ControlledKafka) -> list[tuple[str, str]]:
    requests = ("the last requests to Kafka", "\n".join(kafka.recent_requests()))
    failures = ("handlers that failed", "\n".join(kafka.handler_failures()))
    if not kafka.is_alive:
        return [("Kafka", "the broker has died: what follows from it is no fault of the test"), requests, failures]
    return [requests, failures, ("Kafka's groups", _histories(kafka))]


def _histories(kafka: ControlledKafka) -> str:
    lines: list[str] = []
    try:
        for group in kafka.groups()[:_SHOWN_GROUPS]:
            lines.append(f"{group}: committed {kafka.committed(group)}")
            for each in kafka.history(group):
                causes = ", ".join(f"{cause.kind} {cause.member_id}".strip() for cause in each.causes)
                lines.append(f"  generation {each.generation}: {each.ending}, {each.members} members ({causes})")
    except KafkaError as error:
        lines.append(f"they could not be read: {error}")
    return "\n".join(lines)
