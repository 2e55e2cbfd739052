"""Several brokers in one event loop, and a test that plays their controller.

    async with HandCluster(tmp_path, 3) as cluster:
        await cluster.assign("t", leader=1, isr=(1, 2, 3))
        await cluster.brokers[1]...

The controller keeps the state of every partition. It sends LeaderAndIsr and UpdateMetadata when the test assigns roles,
and answers AlterPartition, unless the test holds it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from odradek.broker import Broker, BrokerConfig
from odradek.broker.clock import Clock
from odradek.broker.topics.partition import Partition
from odradek.protocol import codec, frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
)
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.storage.checkpoints import META_PROPERTIES
from odradek.storage.files import DISK, Disk
from odradek.tests.support.clients.raw import Raw

CONTROLLER = 100

# Clients ask whether a broker is of the cluster that they mean.
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass
class State:
    """The state of one partition, as the controller keeps it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int = 0


@dataclass
class Controller:
    """The answers to AlterPartition, as Kafka's controller gives them."""

    states: dict[tuple[str, int], State] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)
    # Cleared while nothing is answered.
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    changes: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)
    # Called with every proposal: an error to answer with, or None.
    judge: Callable[[str, int, PartitionData], ErrorCode | None] = lambda *_: None
    port: int = 0
    server: asyncio.Server | None = None
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        self.answers.set()
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()
        for writer in list(self.writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while True:
                data = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, offset = frame.decode_request_header(data)
                request = codec.decode(AlterPartitionRequest, header.api_version, data, offset)
                await self.answers.wait()
                pieces = frame.encode_response(header.correlation_id, self.answer(request), header.api_version)
                writer.write(b"".join(bytes(piece) for piece in pieces))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            self.writers.discard(writer)
            writer.transport.abort()

    def answer(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change what may be changed."""
        names = {topic_id: name for name, topic_id in self.ids.items()}
        topics = []
        for topic in request.topics:
            results = [self._alter(names[topic.topic_id], each) for each in topic.partitions]
            topics.append(AlteredTopic(topic_id=topic.topic_id, partitions=results))
        return AlterPartitionResponse(topics=topics)

    def _alter(self, name: str, wanted: PartitionData) -> AlteredPartition:
        index = wanted.partition_index
        state = self.states[name, index]
        isr = tuple(each.broker_id for each in wanted.new_isr_with_epochs)
        error = self.judge(name, index, wanted)
        if error is None and wanted.leader_epoch != state.leader_epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        if error is None and isr != state.isr and wanted.partition_epoch != state.partition_epoch:
            error = ErrorCode.INVALID_UPDATE_VERSION
        if error is not None:
            return AlteredPartition(index, int(error))
        if isr != state.isr:
            state.isr, state.partition_epoch = isr, state.partition_epoch + 1
            self.changes.append((name, index, isr))
        return AlteredPartition(
            index, 0, state.leader, state.leader_epoch, list(isr), partition_epoch=state.partition_epoch
        )


class HandCluster:
    """Brokers 1 to `count`. `configs` go to each of them, by field name."""

    def __init__(self, directory: Path, count: int = 3, racks: dict[int, str] | None = None, **configs: Any) -> None:
        self.brokers: dict[int, Broker] = {}
        self.controller = Controller()
        self.controller_epoch = 1
        # Where others are told that a broker is, if that is not its own address.
        self.addresses: dict[int, tuple[str, int]] = {}
        # The disks of brokers that have one of their own, and the clocks of those that are ahead or behind.
        self.disks: dict[int, Disk] = {}
        self.clocks: dict[int, Clock] = {}
        base = BrokerConfig(
            listeners=("PLAINTEXT://127.0.0.1:0",),
            group_initial_rebalance_delay_ms=0,
            offsets_topic_num_partitions=2,
            transaction_state_log_num_partitions=2,
            share_coordinator_state_topic_num_partitions=2,
            replica_fetch_backoff_ms=20,
            **{"replica_fetch_wait_max_ms": 50, **configs},
        )
        self.configs = {
            node: replace(
                base,
                node_id=node,
                broker_id=node,
                broker_rack=(racks or {}).get(node),
                log_dirs=(str(directory / f"node-{node}"),),
            )
            for node in range(1, count + 1)
        }

    async def __aenter__(self) -> HandCluster:
        await self.controller.start()
        for node in self.configs:
            await self.start(node)
        await self.update_metadata()
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in list(self.brokers):
            await self.stop(node)
        await self.controller.stop()

    async def start(self, node: int) -> Broker:
        """Start a broker, on the port that it had."""
        disk = self.disks.get(node, DISK)
        meta = Path(self.configs[node].log_dirs[0]) / META_PROPERTIES
        if not meta.exists():
            meta.parent.mkdir(parents=True, exist_ok=True)
            meta.write_text(f"version=1\ncluster.id={_CLUSTER_ID}\nnode.id={node}\n")
        broker = Broker(self.configs[node], clustered=True, disk=disk, clock=self.clocks.get(node))
        await broker.start()
        # No producer id may be given out twice. ZooKeeper sees to that in a cluster.
        broker.services.metadata.pass_over(0, node * 1_000_000)
        self.configs[node] = replace(self.configs[node], listeners=(f"PLAINTEXT://{broker.address}",))
        self.brokers[node] = broker
        return broker

    async def stop(self, node: int) -> None:
        """Stop a broker cleanly; its replicas keep their states."""
        await self.brokers.pop(node).stop()

    async def connect(self, node: int) -> Raw:
        """A connection to one broker."""
        return await Raw.connect(self.brokers[node].address)

    def partition(self, node: int, topic: str = "t", index: int = 0) -> Partition:
        """The partition as one broker has it."""
        found = self.brokers[node].topics.get(topic)
        assert found is not None
        return found.partitions[index]

    # -- The controller's requests

    async def assign(
        self,
        topic: str,
        index: int = 0,
        *,
        leader: int,
        isr: Iterable[int] | None = None,
        replicas: Iterable[int] | None = None,
        to: Iterable[int] | None = None,
    ) -> State:
        """Make `leader` the leader in a new epoch, and tell the replicas in `to` (default: all that run) and everyone.

        The ISR and the replicas stay as they were; of a new partition all brokers are both.
        """
        controller, before = self.controller, self.controller.states.get((topic, index))
        controller.ids.setdefault(topic, bytes([len(controller.ids) + 1]) * 16)
        known = tuple(self.configs)
        state = State(
            leader,
            0 if before is None else before.leader_epoch + 1,
            tuple(isr) if isr is not None else (before.isr if before is not None else known),
            tuple(replicas) if replicas is not None else (before.replicas if before is not None else known),
            0 if before is None else before.partition_epoch + 1,
        )
        controller.states[topic, index] = state
        for node in state.replicas if to is None else to:
            if node in self.brokers:
                answer = await self.leader_and_isr(node, [(topic, index)])
                assert (answer.error_code, answer.topics[0].partition_errors[0].error_code) == (0, 0)
        await self.update_metadata()
        return state

    async def leader_and_isr(self, node: int, places: Iterable[tuple[str, int]], **rest: Any) -> Any:
        """Send the present states of some partitions to one broker."""
        topics: dict[str, LeaderAndIsrTopicState] = {}
        for name, index in places:
            state = self.controller.states[name, index]
            topic = topics.setdefault(name, LeaderAndIsrTopicState(name, self.controller.ids[name]))
            topic.partition_states.append(
                LeaderAndIsrPartitionState(**self._told(index, state), partition_epoch=state.partition_epoch)
            )
        live = [LeaderAndIsrLiveLeader(each, *self._address(each)) for each in self.brokers]
        request = LeaderAndIsrRequest(
            **{"controller_id": CONTROLLER, "controller_epoch": self.controller_epoch, **rest},
            topic_states=list(topics.values()),
            live_leaders=live,
        )
        async with await self.connect(node) as raw:
            return await raw.ask(ApiKey.LEADER_AND_ISR, 6, request)

    async def stop_replica(self, node: int, topic: str, index: int = 0, *, delete: bool, **rest: Any) -> Any:
        """Stop, and perhaps delete, a partition at one broker."""
        epoch = rest.pop("leader_epoch", self.controller.states[topic, index].leader_epoch)
        state = StopReplicaTopicState(topic, [StopReplicaPartitionState(index, epoch, delete)])
        request = StopReplicaRequest(
            **{"controller_id": CONTROLLER, "controller_epoch": self.controller_epoch, **rest}, topic_states=[state]
        )
        async with await self.connect(node) as raw:
            return await raw.ask(ApiKey.STOP_REPLICA, 3, request)

    async def update_metadata(self, to: Iterable[int] | None = None, **rest: Any) -> None:
        """Tell brokers (default: all that run) of the whole cluster."""
        live = [
            UpdateMetadataBroker(
                node,
                endpoints=[UpdateMetadataEndpoint(port, host, "PLAINTEXT", 0)],
                rack=self.configs[node].broker_rack,
            )
            for node in self.brokers
            for host, port in [self._address(node)]
        ]
        live.append(
            UpdateMetadataBroker(
                CONTROLLER, endpoints=[UpdateMetadataEndpoint(self.controller.port, "127.0.0.1", "PLAINTEXT", 0)]
            )
        )
        topics: dict[str, UpdateMetadataTopicState] = {}
        for (name, index), state in self.controller.states.items():
            topic = topics.setdefault(name, UpdateMetadataTopicState(name, self.controller.ids[name]))
            topic.partition_states.append(
                UpdateMetadataPartitionState(**self._told(index, state), zk_version=state.partition_epoch)
            )
        request = UpdateMetadataRequest(
            **{"controller_id": CONTROLLER, "controller_epoch": self.controller_epoch, **rest},
            topic_states=list(topics.values()),
            live_brokers=live,
        )
        for node in list(self.brokers) if to is None else to:
            async with await self.connect(node) as raw:
                answer = await raw.ask(ApiKey.UPDATE_METADATA, 8, request)
                assert answer.error_code == 0

    def _told(self, index: int, state: State) -> dict[str, Any]:
        """Return what both requests say of a partition."""
        return {
            "partition_index": index,
            "controller_epoch": self.controller_epoch,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
            "replicas": list(state.replicas),
        }

    def _address(self, node: int) -> tuple[str, int]:
        if node in self.addresses:
            return self.addresses[node]
        host, _, port = self.brokers[node].address.rpartition(":")
        return host, int(port)


def bytes_of(cluster: HandCluster, node: int, topic: str = "t", index: int = 0) -> bytes:
    """All batches of a partition, as one broker has them."""
    log = cluster.partition(node, topic, index).log
    return b"".join(data for _, data in log.iter_batches(log.log_start_offset))
