"""What a broker shows others: its certificate, as the files are, and who it is by its configs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.security.outgoing import OutgoingTls, broker_login, own_principal
from odradek.broker.security.pem import StoreError
from odradek.tests.support.clusters.secure_members import secure_config
from odradek.tests.support.security.tls import Authority


def inner(config: BrokerConfig) -> Any:
    return lambda: config.of_listener("INNER")


async def test_a_certificate_that_was_replaced_is_for_the_next_connection(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    config = secure_config(BrokerConfig(), authority, "SSL")
    tls = OutgoingTls(inner(config))
    first = await tls.context()
    assert await tls.context() is first
    authority.store("broker.pem", "localhost", "more.example")
    assert await tls.context() is not first


async def test_a_broken_file_leaves_the_certificate_of_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    tls = OutgoingTls(inner(secure_config(BrokerConfig(), authority, "SSL")))
    first = await tls.context()
    (tmp_path / "broker.pem").write_text("nothing")
    assert await tls.context() is first
    assert "connections to other brokers use the certificates of before" in caplog.text


@pytest.mark.parametrize(
    ("protocol", "configs", "principal"),
    [
        ("PLAINTEXT", {}, "User:ANONYMOUS"),
        ("SASL_SSL", {}, "User:broker"),
        ("SSL", {"ssl_principal_mapping_rules": "RULE:^.*OU=([^,]+).*$/$1/U,DEFAULT"}, "User:BROKER"),
        ("SSL", {"listener_configs": {"listener.name.inner.ssl.client.auth": "none"}}, "User:ANONYMOUS"),
    ],
)
def test_a_broker_is_who_its_listener_says(
    tmp_path: Path, protocol: str, configs: dict[str, Any], principal: str
) -> None:
    config = secure_config(BrokerConfig(), Authority(tmp_path), protocol, **configs)
    assert str(own_principal(config)) == principal


@pytest.mark.parametrize("line", ["PlainLoginModule", 'PlainLoginModule required username="broker";'])
def test_a_login_without_name_and_password_is_refused_without_a_secret(tmp_path: Path, line: str) -> None:
    own = {"listener.name.inner.plain.sasl.jaas.config": line}
    config = secure_config(BrokerConfig(), Authority(tmp_path), "SASL_PLAINTEXT", listener_configs=own)
    with pytest.raises(StoreError, match=r"listener\.name\.inner\.plain\.sasl\.jaas\.config"):
        broker_login(config)
