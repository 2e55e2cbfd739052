"""How many may connect."""

from odradek.broker.network.connection_limits import Admission


def test_counts_by_address_and_in_all() -> None:
    admission = Admission(max_connections=3, max_per_address=2)
    assert admission.admit("a") is admission.admit("a") is None
    assert admission.admit("a") == "max.connections.per.ip is 2"
    assert admission.admit("b") is None
    assert admission.admit("c") == "max.connections is 3"
    admission.release("a")
    assert admission.admit("c") is None


def test_keeps_nothing_of_who_is_gone() -> None:
    admission = Admission()
    for address in map(str, range(1000)):
        assert admission.admit(address) is None
        admission.release(address)
    assert admission._by_address == {}


def test_of_none_refuses_everyone() -> None:
    assert Admission(0, 5).admit("a") == "max.connections is 0"
    assert Admission(5, 0).admit("a") == "max.connections.per.ip is 0"
