"""The options of security: what goes together, and what is refused because it would have no effect."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from odradek.client import Admin, Consumer, Producer, SimpleConsumer
from odradek.client.core.security_options import SecurityOptions
from odradek.client.errors import InvalidOption

PASSWORD: dict[str, Any] = {"sasl_plain_username": "u", "sasl_plain_password": "p"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"security_protocol": "TLS"}, "security_protocol must be one of PLAINTEXT, SSL"),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile has no effect with security_protocol=PLAINTEXT"),
        ({"security_protocol": "SASL_PLAINTEXT", "ssl_check_hostname": False}, "ssl_check_hostname has no effect"),
        ({"security_protocol": "SSL", **PASSWORD}, "sasl_plain_username has no effect with security_protocol=SSL"),
        ({"security_protocol": "SSL", "ssl_keyfile": "k"}, "set ssl_certfile"),
        (
            {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(), "ssl_cafile": "c"},
            "ssl_cafile has no effect beside ssl_context",
        ),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism must be one of PLAIN"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "not 'GSSAPI'"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "PLAIN needs sasl_plain_username"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauth_token_provider"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_oauth_token_provider": lambda: "",
                **PASSWORD,
            },
            "sasl_oauth_token_provider has no effect with sasl_mechanism=PLAIN",
        ),
    ],
)
def test_options_that_do_not_go_together_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        SecurityOptions(**options)


def test_no_secret_is_in_the_text_of_the_options() -> None:
    options = SecurityOptions(
        security_protocol="SASL_SSL",
        ssl_certfile="c",
        ssl_password="one secret",
        sasl_mechanism="PLAIN",
        sasl_plain_username="u",
        sasl_plain_password="another secret",
    )
    assert "secret" not in repr(options)


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer, SimpleConsumer])
def test_every_client_takes_them_and_no_other_name(kind: Any) -> None:
    with pytest.raises(InvalidOption, match="security_protocol must be one of"):
        kind(security_protocol="TLS")
    with pytest.raises(TypeError, match=f"{kind.__name__} has no option 'ssl_ca'"):
        kind(ssl_ca="ca.pem")
