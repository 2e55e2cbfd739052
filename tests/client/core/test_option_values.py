"""Values of options: bootstrap_servers as people write them, and acks."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.client import Producer
from odradek.client.core.option_values import bootstrap_addresses, broker_address
from odradek.client.errors import InvalidOption


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("localhost:9093", [("localhost", 9093)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("somewhere", [("somewhere", 9092)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        ("[::1]:19092", [("::1", 19092)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_hosts_and_ports_are_found(servers: str | list[str], addresses: list[tuple[str, int]]) -> None:
    assert bootstrap_addresses(servers) == addresses


@pytest.mark.parametrize(
    "servers",
    ["", " , ", [], "host:port", "host:0", "host:70000", ":9092", "PLAINTEXT://a:1", "a..b:1", f"{'a' * 64}:1"],
)
def test_what_is_no_address_is_refused_by_name(servers: str | list[str]) -> None:
    with pytest.raises(InvalidOption, match="bootstrap_servers"):
        bootstrap_addresses(servers)


@pytest.mark.parametrize("servers", [[("a", 1)], ("a", 1), [b"a:1"], b"a:1", 9092, None])
def test_servers_of_another_type_are_refused_with_what_is_taken(servers: Any) -> None:
    with pytest.raises(InvalidOption, match=r"bootstrap_servers .* HOST:PORT.*, not "):
        bootstrap_addresses(servers)


def test_one_broker_is_named_whole_or_by_host_and_port() -> None:
    assert broker_address("::1", 9093) == ("::1", 9093)
    assert broker_address("somewhere:9093", None) == ("somewhere", 9093)
    assert broker_address("somewhere", None) == ("somewhere", 9092)
    with pytest.raises(InvalidOption, match="names 2 servers"):
        broker_address("a:1,b:2", None)


@pytest.mark.parametrize("acks", [True, False])
def test_true_and_false_are_no_acks(acks: Any) -> None:
    """In Python they equal 1 and 0."""
    with pytest.raises(InvalidOption, match='acks must be 0, 1 or "all"'):
        Producer(acks=acks, enable_idempotence=False)
