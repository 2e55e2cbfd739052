"""The text format: whatever a label holds, Prometheus' own parser reads it back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.metrics.table import COUNTER, METRICS, family, histogram
from prometheus_client.parser import text_string_to_metric_families

# What the parser itself takes for ends of lines is no label of ours: Kafka's names of topics have none, and the broker
# escapes a newline.
LABELS = st.text(st.characters(exclude_categories=("Cs",)))


@given(LABELS)
def test_every_label_is_read_back_as_it_was(label: str) -> None:
    text = "".join(family("odradek_group_members", [((label,), 3)]))
    lines = text.split("\n")
    assert len(lines) == 4
    (found,) = text_string_to_metric_families(text)
    assert [(each.labels, each.value) for each in found.samples] == [({"group": label}, 3.0)]


def test_buckets_of_a_histogram_add_up() -> None:
    text = "".join(histogram("odradek_request_duration_seconds", [(("Fetch",), [1, 2, 4], 9.5)], [0.5, 1.0]))
    (found,) = text_string_to_metric_families(text)
    values = {(each.name.rpartition("_")[2], each.labels.get("le")): each.value for each in found.samples}
    assert values == {
        ("bucket", "0.5"): 1,
        ("bucket", "1.0"): 3,
        ("bucket", "+Inf"): 7,
        ("count", None): 7,
        ("sum", None): 9.5,
    }


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in METRICS.values():
        assert metric.help.endswith("."), metric
        assert metric.name.endswith("_total") == (metric.type == COUNTER), metric
