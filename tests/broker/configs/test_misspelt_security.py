"""Misspelt names of what keeps others out end the start: the broker would be open, and nobody reads the log."""

from __future__ import annotations

import pytest
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.configs.definition import ConfigError

_EXTERNAL = {
    "listeners": "PLAINTEXT://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ssl.client.auht", "ssl.client.auth"),
        ("ssl.client.auth ", "ssl.client.auth"),
        ("SSL.Client.Auth", "ssl.client.auth"),
        ("external.ssl.client.auth", "ssl.client.auth"),
        ("authorizer.class", "authorizer.class.name"),
        ("super.user", "super.users"),
        ("allow.everyone.if.no.acls.found", "allow.everyone.if.no.acl.found"),
        ("sasl.enabled.mechanism", "sasl.enabled.mechanisms"),
        ("sasl.jaas.confg", "sasl.jaas.config"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_misspelt_name_of_what_keeps_others_out_ends_the_start(name: str, meant: str, strict: bool) -> None:
    with pytest.raises(ConfigError, match=rf"unknown \(did you mean {meant}\?\)") as raised:
        BrokerConfig.parse({name: "a-secret"}, strict=strict)
    assert "a-secret" not in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "listener.names.external.ssl.client.auth",
        "listeners.name.external.ssl.client.auth",
        "listener-name.external.ssl.client.auth",
        "listenername.external.ssl.client.auth",
        "Listener.Name.External.ssl.client.auth",
        " listener.name.external.ssl.client.auth",
        "listener.external.ssl.client.auth",
        "listener.name.ssl.client.auth",
        "listener.name..ssl.client.auth",
        "listener.name.external.plain.ssl.client.auth",
    ],
)
def test_a_misspelt_prefix_of_a_listener_ends_the_start(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.parse({**_EXTERNAL, name: "required"})
    assert "required" not in str(raised.value)


def test_a_line_of_jaas_without_a_mechanism_is_warned_of() -> None:
    for name in ("sasl.jaas.config", "listener.name.external.sasl.jaas.config"):
        _, warnings = BrokerConfig.parse({**_EXTERNAL, name: "x"})
        assert warnings == [f"config {name}: has no use without the prefix of a listener and a mechanism"]


@pytest.mark.parametrize("name", ["super.users", "allow.everyone.if.no.acl.found", "authorizer.class.name"])
def test_no_listener_has_an_authorizer_of_its_own(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^listener\.name\.external\.{name}=\[hidden\]: unknown"):
        BrokerConfig.parse(_EXTERNAL | {f"listener.name.external.{name}": "a-secret"})


def test_a_config_that_only_the_broker_has_is_not_told_as_kafkas_for_a_listener() -> None:
    name = "listener.name.external.http.listener"
    _, warnings = BrokerConfig.parse(_EXTERNAL | {name: "x"})
    assert warnings == [f"config {name}: not acted on with the prefix of a listener"]


@pytest.mark.parametrize("listener", ["externl", "EXTERNAL", "external.tls", "controller"])
@pytest.mark.parametrize("config", ["ssl.client.auth", "ssl.keystore.location", "plain.sasl.jaas.config", "x.y"])
def test_a_config_of_a_listener_that_there_is_not_ends_the_start(listener: str, config: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.parse(_EXTERNAL | {f"listener.name.{listener}.{config}": "required"})
    assert "required" not in str(raised.value)
