"""Brokers of a cluster that reach each other by TLS and SASL, in one loop, with a model of ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from odradek.broker import Broker, BrokerConfig
from odradek.testing.zookeeper import FakeZookeeper
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.lone_cluster import modelled_zookeeper
from odradek.tests.support.security.tls import Authority

BROKER, PASSWORD = "broker", "between brokers"
# How brokers log in, and let others in, by each mechanism.
JAAS = {
    "PLAIN": f'PlainLoginModule required username="{BROKER}" password="{PASSWORD}" user_{BROKER}="{PASSWORD}" '
    'user_alice="secret";',
    "SCRAM-SHA-256": f'ScramLoginModule required username="{BROKER}" password="{PASSWORD}";',
    "SCRAM-SHA-512": f'ScramLoginModule required username="{BROKER}" password="{PASSWORD}";',
}


def secure_config(
    config: BrokerConfig, authority: Authority, protocol: str, mechanism: str = "PLAIN", **configs: Any
) -> BrokerConfig:
    """Return a config with the listener PLAINTEXT for clients, and INNER for brokers."""
    prefix = "listener.name.inner."
    own = {f"{prefix}ssl.client.auth": "required"} if protocol == "SSL" else {}
    store = next((each for each in [authority.folder / "broker.pem"] if each.exists()), None)
    return replace(
        config,
        inter_broker_listener_name="INNER",
        sasl_enabled_mechanisms=(mechanism,),
        sasl_mechanism_inter_broker_protocol=mechanism,
        listener_configs={
            **own,
            **{f"{prefix}{name.lower()}.sasl.jaas.config": line for name, line in JAAS.items()},
            **configs.pop("listener_configs", {}),
        },
        **{
            "listeners": ("PLAINTEXT://127.0.0.1:0", "INNER://127.0.0.1:0"),
            "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,INNER:{protocol}",
            "ssl_keystore_type": "PEM",
            "ssl_keystore_location": str(store or authority.store()),
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": str(authority.path),
            **configs,
        },
    )


class SecureMembers:
    """Makes brokers of one cluster, and stops them at the end."""

    def __init__(self, folder: Path, ensemble: FakeZookeeper, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.ensemble = ensemble
        self.stack = stack
        self.authority = Authority(folder)
        self.base = BrokerConfig(
            zookeeper_connect="modelled:2181",
            controlled_shutdown_enable=False,
            group_initial_rebalance_delay_ms=0,
            offsets_topic_num_partitions=1,
            transaction_state_log_num_partitions=1,
            share_coordinator_state_topic_num_partitions=1,
            offsets_topic_replication_factor=1,
            transaction_state_log_replication_factor=1,
            transaction_state_log_min_isr=1,
            replica_fetch_backoff_ms=20,
            num_network_threads=1,
        )

    def config(self, number: int, protocol: str, mechanism: str = "PLAIN", **configs: Any) -> BrokerConfig:
        """Return the config of a broker."""
        secure = secure_config(self.base, self.authority, protocol, mechanism, **configs)
        return replace(secure, broker_id=number, log_dirs=(str(self.folder / f"broker-{number}"),))

    async def start(self, number: int, protocol: str, mechanism: str = "PLAIN", **configs: Any) -> Broker:
        """Start a broker; it is stopped at the end of the test."""
        broker = Broker(self.config(number, protocol, mechanism, **configs))
        await broker.start()
        self.stack.push_async_callback(broker.stop)
        return broker

    async def raw(self, broker: Broker) -> Raw:
        """Return a connection to the plain listener of a broker."""
        return await self.stack.enter_async_context(await Raw.connect(broker.address))


@asynccontextmanager
async def secure_members(folder: Path) -> AsyncIterator[SecureMembers]:
    """Yield a cluster without brokers."""
    with modelled_zookeeper() as ensemble:
        async with AsyncExitStack() as stack:
            made = SecureMembers(folder, ensemble, stack)
            yield made
            await asyncio.sleep(0)
