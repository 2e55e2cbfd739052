"""The configs of a secure ZooKeeper, and JAAS files: what they make, and what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE
from odradek.broker import BrokerConfig
from odradek.broker.cluster.zookeeper_login import zookeeper_security
from odradek.broker.security.pem import StoreError
from odradek.tests.support.security.tls import Authority, pem_of
from odradek.zookeeper.security import ZooKeeperSecurity

ON = {"zookeeper.connect": "h:2181", "zookeeper.ssl.client.enable": "true"}


def context(**configs: str) -> ssl.SSLContext:
    named = {f"zookeeper.ssl.{name.replace('_', '.')}": text for name, text in configs.items()}
    found = zookeeper_security(BrokerConfig.parse(ON | named)[0]).tls
    assert found is not None
    return found


def test_without_configs_nothing_is_secured() -> None:
    found = zookeeper_security(BrokerConfig(zookeeper_connect="h:2181"))
    assert (found.tls, found.login, found.sets_acl) == (None, None, False)


def test_the_key_may_be_encrypted(tmp_path: Path) -> None:
    made = Authority(tmp_path).ca.issue_cert("broker")
    key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    store = tmp_path / "store.pem"
    store.write_bytes(key.private_bytes(pem, pkcs8, encryption) + made.cert_chain_pems[0].bytes())
    assert context(keystore_location=str(store), keystore_password="secret")
    with pytest.raises(StoreError, match="cannot be decrypted"):
        context(keystore_location=str(store), keystore_password="guessed")


def test_a_store_is_pem_by_its_type_or_its_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    named, other = tmp_path / "x.pem", tmp_path / "x.txt"
    for path in (named, other):
        path.write_text(pem_of(authority.ca.issue_cert("broker")) + authority.text)
    assert context(keystore_location=str(named), truststore_location=str(named))
    stores = {"keystore_location": str(other), "truststore_location": str(other)}
    assert context(**stores, keystore_type="PEM", truststore_type="pem")
    for kinds in ({"keystore_type": "PEM"}, {"truststore_type": "PEM"}):
        with pytest.raises(StoreError, match=r"^zookeeper\.ssl\..*store\.type=JKS: only PEM can be read"):
            context(**stores, **kinds)


def test_the_versions_and_suites_are_those_of_the_configs() -> None:
    old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert (context().minimum_version, context().maximum_version) == (old, old)
    assert context(protocol="TLSv1.3").minimum_version == new
    both = context(enabled_protocols="TLSv1.2,TLSv1.3")
    assert (both.minimum_version, both.maximum_version) == (old, new)
    suites = context(cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").get_ciphers()
    assert "ECDHE-RSA-AES128-GCM-SHA256" in [each["name"] for each in suites]
    assert "ECDHE-RSA-AES256-GCM-SHA384" not in [each["name"] for each in suites]


def test_the_host_is_checked_unless_the_algorithm_is_empty() -> None:
    assert context().check_hostname
    assert not context(endpoint_identification_algorithm="").check_hostname
    assert context(endpoint_identification_algorithm="").verify_mode is ssl.CERT_REQUIRED


def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"zookeeper\.ssl\.truststore\.password cannot be used with PEM"):
        context(truststore_location=str(Authority(tmp_path).path), truststore_password="x")
    with pytest.raises(StoreError, match="missing: no such file"):
        context(keystore_location=str(tmp_path / "missing"), keystore_type="PEM")


# -- JAAS files


def login(path: Path, text: str) -> tuple[str, str] | None:
    path.write_text(text)
    configs = {"zookeeper.connect": "h:2181", "java.security.auth.login.config": str(path)}
    return zookeeper_security(BrokerConfig.parse(configs)[0]).login


def test_the_section_client_has_the_login(tmp_path: Path) -> None:
    text = """
    // of the broker itself
    KafkaServer { org.x.PlainLoginModule required username="a" password="x;} // y"; };
    /* at
       ZooKeeper */
    Client {
        org.apache.zookeeper.server.auth.DigestLoginModule required
        username="kafka"
        password="s\\"3";
    };
    """
    assert login(tmp_path / "jaas", text) == ("kafka", 's"3')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no section Client"),
        ('KafkaServer { X required a="b"; };', "it has no section Client"),
        ('Client { Krb5LoginModule required keyTab="/secret"; };', "section Client must have DigestLoginModule"),
        ('Client { DigestLoginModule required username="u"; };', "section Client must have DigestLoginModule"),
        ('Client { DigestLoginModule required password="secret" ', "what follows 0 sections is none"),
    ],
)
def test_a_file_without_a_login_is_refused_without_a_secret(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(StoreError, match=rf"java\.security\.auth\.login\.config=.*{why}") as caught:
        login(tmp_path / "jaas", text)
    assert "secret" not in str(caught.value)


def test_a_missing_file_is_named() -> None:
    configs = {"zookeeper.connect": "h:2181", "java.security.auth.login.config": "/missing"}
    with pytest.raises(StoreError, match="/missing: no such file"):
        zookeeper_security(BrokerConfig.parse(configs)[0])


# -- ACLs of znodes


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/brokers/ids/1", CREATOR_ALL_ACL + READ_ACL_UNSAFE),
        ("/config/users/alice", CREATOR_ALL_ACL),
        ("/config/brokers", CREATOR_ALL_ACL),
        ("/config/topics/t", CREATOR_ALL_ACL + READ_ACL_UNSAFE),
        ("/consumers", OPEN_ACL_UNSAFE),
    ],
)
def test_znodes_have_the_acls_that_kafka_gives(path: str, acl: object) -> None:
    assert ZooKeeperSecurity(sets_acl=True).acl_of(path) == acl
    assert ZooKeeperSecurity().acl_of(path) == OPEN_ACL_UNSAFE
