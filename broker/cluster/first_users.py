"""The passwords of users that must be there before the first broker of a cluster: brokers that log in by SCRAM, say."""

from __future__ import annotations

from ..configs.broker_config import BrokerConfig
from ..quotas.entities import Entity
from ..security.sasl.scram import Credential
from .security_steps import CONFIGS, change_entity
from .security_znodes import USERS, encode_credential, entity_path
from .znodes import CONFIG_CHANGES
from .zookeeper_login import session_of


async def set_password(config: BrokerConfig, user: str, mechanism: str, credential: Credential) -> None:
    """Write what is kept of a password into the ZooKeeper of a broker's configs. Brokers that run learn of it.

    Raises ZooKeeperUnreachable, StoreError, and BadZnode where the user's znode cannot be read.
    """
    session = session_of(config)
    await session.start((CONFIG_CHANGES, f"{CONFIGS}/{USERS}"))
    try:
        kept = {mechanism: encode_credential(credential)}
        await session.run(change_entity(entity_path(Entity(user=user)), lambda present: {**present, **kept}))
    finally:
        await session.stop()
