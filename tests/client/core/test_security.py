"""The options of security: what goes together, what would have no effect, and the dotted names of other clients."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from odradek.client import Admin, Consumer, Producer, SimpleConsumer
from odradek.client.core.security import SECURITY_CONFIGS, SecurityOptions, TokenFile, security_arguments
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


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_a_file_of_javas_clients_is_understood() -> None:
    assert security_arguments(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.endpoint.identification.algorithm": "",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} required\n  username="alice" password="a \\"b\\" ;=c\\\\";',
            "linger.ms": "5",
        }
    ) == {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a "b" ;=c\\',
    }


def test_the_names_of_librdkafka_are_understood() -> None:
    assert security_arguments(
        {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": "ca.pem",
            "ssl.certificate.location": "c.pem",
            "ssl.key.location": "k.pem",
            "ssl.key.password": "x",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "p",
        }
    ) == {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "c.pem",
        "ssl_keyfile": "k.pem",
        "ssl_password": "x",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }


def test_a_file_with_a_token_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "my token"
    path.write_text("one\n")
    given = security_arguments(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "OAuthBearerLoginModule required;",
            "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        }
    )
    provider = SecurityOptions(**given).sasl_oauth_token_provider
    assert isinstance(provider, TokenFile) and provider.token() == "one"
    path.write_text("two")
    assert provider.token() == "two"


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"ssl.truststore.type": "JKS"}, "ssl.truststore.type=JKS: only PEM"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "must be https"),
        ({"ssl.check.hostname": "maybe"}, "true or false"),
        ({"sasl.jaas.config": "com.example.Own required;"}, "PlainLoginModule"),
        ({"sasl.jaas.config": f'{SCRAM} required username="u";'}, "needs username and password"),
        ({"sasl.jaas.config": f"{SCRAM} required username=u password=p more;"}, "'more' cannot be read"),
        ({"sasl.jaas.config": "OAuthBearerLoginModule required clientId=x;"}, "clientId is for Java"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://id"}, "only a file:"),
        ({"ssl.cafile": "a", "ssl.ca.location": "b"}, "ssl_cafile is given twice"),
    ],
)
def test_what_cannot_be_read_names_the_config(configs: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        security_arguments(configs)


def test_every_config_belongs_to_an_option() -> None:
    assert all(name.startswith(("security.", "ssl.", "sasl.")) for name in SECURITY_CONFIGS)
    assert {each.replace("_", ".") for each in ("ssl_cafile", "ssl_certfile", "sasl_mechanism")} <= SECURITY_CONFIGS
