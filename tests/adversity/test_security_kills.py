"""kill -9 between a change of users, ACLs, quotas or certificates and its use: what was acknowledged counts afterwards.

A change that was under way at the kill counts wholly or not at all.
"""

from __future__ import annotations

import random
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trustme", reason="the certificates are trustme's")

from odradek.client import Acl, AclFilter, ConfigChange, ConfigResource, KafkaError, QuotaEntity, ScramPassword
from odradek.client.blocking import Admin
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.security.strangers import Guarded
from odradek.tests.support.seeds import seeds

KILLS = 4
USERS = ("alice", "bob")

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


@dataclass
class Acknowledged:
    """What the broker has acknowledged."""

    passwords: dict[str, str] = field(default_factory=dict[str, str])
    acls: set[Acl] = field(default_factory=set[Acl])
    quotas: dict[str, float] = field(default_factory=dict[str, float])
    certificate: str = "broker.pem"
    # Those that were replaced or deleted.
    old_passwords: dict[str, str] = field(default_factory=dict[str, str])


class Changes:
    """Random changes of one broker, and the look at what became of them."""

    def __init__(self, broker: Guarded, seed: int) -> None:
        self.broker = broker
        self.rolls = random.Random(seed)
        self.known = Acknowledged()
        self.number = 0

    def change(self, admin: Admin) -> None:
        """Make one change, and note it when the response is there."""
        self.number += 1
        self.rolls.choice([self._password, self._delete_password, self._acl, self._quota, self._certificate])(admin)

    def _password(self, admin: Admin) -> None:
        user, password = self.rolls.choice(USERS), f"password-{self.number}"
        admin.alter_user_scram_credentials(ScramPassword(user, "SCRAM-SHA-256", password))
        self.known.old_passwords[user] = self.known.passwords.get(user, "never")
        self.known.passwords[user] = password

    def _delete_password(self, admin: Admin) -> None:
        user = self.rolls.choice(USERS)
        if user in self.known.passwords:
            admin.alter_user_scram_credentials(ScramPassword(user, "SCRAM-SHA-256", None))
            self.known.old_passwords[user] = self.known.passwords.pop(user)

    def _acl(self, admin: Admin) -> None:
        if self.known.acls and self.rolls.random() < 0.4:
            gone = self.rolls.choice(sorted(self.known.acls, key=repr))
            admin.delete_acls(AclFilter(gone.principal, gone.operation, gone.resource_type, gone.resource_name))
            self.known.acls.discard(gone)
            return
        acl = Acl(self.rolls.choice(["User:alice", "User:bob"]), "read", "topic", f"t{self.rolls.randrange(5)}")
        admin.create_acls(acl)
        self.known.acls.add(acl)

    def _quota(self, admin: Admin) -> None:
        user = self.rolls.choice(USERS)
        value = self.rolls.choice([None, float(self.rolls.randrange(1, 1_000))])
        admin.alter_client_quotas({QuotaEntity(user): {"producer_byte_rate": value}})
        if value is None:
            self.known.quotas.pop(user, None)
        else:
            self.known.quotas[user] = value

    def _certificate(self, admin: Admin) -> None:
        name = f"store-{self.number}.pem"
        path = self.broker.doors.authority.store(name)
        admin.alter_configs(
            {ConfigResource.broker(1): [ConfigChange("listener.name.tls.ssl.keystore.location", str(path))]}
        )
        self.known.certificate = name

    async def leave_one_under_way(self) -> AclCreation:
        """Send a change without waiting for its response."""
        acl = AclCreation(
            resource_type=2, resource_name=f"under-way-{self.number}", resource_pattern_type=3,
            principal="User:carol", host="*", operation=3, permission_type=3,
        )  # fmt: skip
        async with await Raw.connect(self.broker.address) as raw:
            raw.send(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([acl]))
            await raw._writer.drain()
        return acl

    def check(self, admin: Admin) -> None:
        """Compare the broker with what it has acknowledged, by using it."""
        under_way = {each for each in admin.describe_acls() if each.principal == "User:carol"}
        assert set(admin.describe_acls()) - under_way == self.known.acls
        found = {entity.user: values["producer_byte_rate"] for entity, values in admin.describe_client_quotas().items()}
        assert found == self.known.quotas
        for user in USERS:
            assert self._logs_in(user, self.known.passwords.get(user, "never")) is (user in self.known.passwords)
            assert not self._logs_in(user, self.known.old_passwords.get(user, "of nobody"))
        assert self._shown() == self._stored()

    def _logs_in(self, user: str, password: str) -> bool:
        options: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
        options |= {"sasl_plain_username": user, "sasl_plain_password": password, "default_api_timeout_ms": 20_000}
        try:
            with Admin(self.broker.doors.at("AUTH"), **options) as admin:
                admin.describe_cluster()
        except KafkaError as error:
            assert "rejects the user" in str(error), error
            return False
        return True

    def _shown(self) -> bytes | None:
        context = self.broker.doors.authority.context()
        with socket.create_connection(("127.0.0.1", self.broker.doors.ports["TLS"])) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as secured:
                return secured.getpeercert(binary_form=True)

    def _stored(self) -> bytes:
        text = (self.broker.doors.authority.folder / self.known.certificate).read_text()
        end = "-----END CERTIFICATE-----"
        return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT") :].partition(end)[0] + end)


@pytest.mark.parametrize("seed", seeds([0], range(20)))
async def test_what_was_acknowledged_counts_after_a_kill(tmp_path: Path, seed: int) -> None:
    broker = Guarded(tmp_path)
    changes = Changes(broker, seed)
    broker.start()
    try:
        for _ in range(KILLS):
            with Admin(broker.address) as admin:
                for _ in range(changes.rolls.randrange(1, 10)):
                    changes.change(admin)
            await changes.leave_one_under_way()
            broker.kill()
            broker.start()
            with Admin(broker.address) as admin:
                changes.check(admin)
    finally:
        broker.close()
