"""The broker configs of Kafka 4.4.0 that Odradek does not act on yet, by name, to tell one from a misspelt one.

A test compares them, and those of the tables, with Kafka's own. A misspelt name of a listener's or a cluster's config
is an error, because a start without it makes another broker than the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from .cluster_table import ClusterTable
from .definition import HIDDEN, ConfigError, definitions_of, nearest, suggestion
from .security_table import MECHANISMS, AuthorizerTable, SecurityTable

# Prefixes of the configs of what Odradek does not have: a quorum, thread pools. Ignoring them loses nothing, so a file
# made for Kafka may keep them.
_NOT_NEEDED = (
    "background.threads",
    "broker.heartbeat.",
    "broker.session.",
    "controller.",
    "early.start.listeners",
    "initial.broker.registration.",
    "inter.broker.",
    "metadata.log.",
    "num.io.threads",
    "num.recovery.threads.",
    "num.replica.",
    "process.roles",
    "replica.",
    "replication.",
    "unclean.leader.",
    "zookeeper.clientCnxnSocket",
    "zookeeper.max.in.flight.requests",
    "zookeeper.metadata.migration.enable",
)
# What would have to tell certificates of ZooKeeper that were taken back.
_REVOCATION = ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")

_NAMES = """
alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds background.threads broker.heartbeat.interval.ms
broker.session.timeout.ms client.quota.callback.class config.providers controller.performance.always.log.threshold.ms
controller.performance.sample.period.ms controller.quorum.append.linger.ms controller.quorum.auto.join.enable
controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters cordoned.log.dirs
create.topic.policy.class.name delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.max.lifetime.ms delegation.token.secret.key delete.records.purgatory.purge.interval.requests
early.start.listeners fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
group.consumer.assignor.offload.enable group.coordinator.append.linger.ms group.coordinator.background.threads
group.coordinator.cached.buffer.max.bytes group.coordinator.threads group.share.assignor.offload.enable
group.share.dlq.manager.class.name group.share.initialize.retry.interval.ms group.share.persister.class.name
group.streams.acceptable.recovery.lag group.streams.assignment.interval.ms group.streams.assignor.offload.enable
group.streams.assignors group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
group.streams.max.size group.streams.max.standby.replicas group.streams.max.warmup.replicas
group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
group.streams.min.task.offset.interval.ms group.streams.num.standby.replicas group.streams.num.warmup.replicas
group.streams.rack.aware.assignment.tags group.streams.session.timeout.ms group.streams.task.offset.interval.ms
group.streams.topology.description.plugin.class initial.broker.registration.timeout.ms
internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
kafka.metrics.polling.interval.secs kafka.metrics.reporters log.cleaner.io.buffer.load.factor
log.cleaner.io.buffer.size log.dir.failure.timeout.ms log.flush.scheduler.interval.ms
log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms log.local.retention.bytes
log.local.retention.ms log.preallocate log.remote.copy.lag.bytes log.remote.copy.lag.ms
metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms num.io.threads
num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads offsets.commit.timeout.ms offsets.load.buffer.size
offsets.topic.compression.codec principal.builder.class process.roles producer.purgatory.purge.interval.requests
queued.max.requests remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
remote.log.storage.manager.class.name remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable replica.socket.receive.buffer.bytes request.timeout.ms
sasl.client.callback.handler.class sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwt.retriever.class
sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url security.providers
server.max.startup.time.ms share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
share.coordinator.load.buffer.size share.coordinator.state.topic.compression.codec share.coordinator.threads
share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm telemetry.max.bytes transaction.state.log.load.buffer.size
transaction.two.phase.commit.enable unclean.leader.election.interval.ms unstable.api.versions.enable
unstable.feature.versions.enable
"""
UNSUPPORTED_CONFIGS = frozenset(_NAMES.split())
# Broker configs of Kafka 3.9.1 that neither Kafka 4 nor Odradek has.
_OLDER_NAMES = """
auto.include.jmx.reporter control.plane.listener.name delegation.token.master.key eligible.leader.replicas.enable
group.coordinator.new.enable group.share.enable group.share.max.groups inter.broker.protocol.version
log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
metadata.log.segment.min.bytes offsets.commit.required.acks password.encoder.cipher.algorithm
password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
password.encoder.old.secret password.encoder.secret zookeeper.clientCnxnSocket zookeeper.max.in.flight.requests
zookeeper.metadata.migration.enable zookeeper.metadata.migration.min.batch.size zookeeper.ssl.crl.enable
zookeeper.ssl.ocsp.enable
"""
# A dynamic config of Kafka's brokers, which its list of broker configs does not name.
THROTTLES = frozenset({"replica.alter.log.dirs.io.max.bytes.per.second"})

# Kafka gives one listener a config under this prefix, the listener's name and the config's.
_OF_A_LISTENER = "listener.name."
_MECHANISMS = frozenset(("gssapi", *(each.lower() for each in MECHANISMS)))
_KNOWN = UNSUPPORTED_CONFIGS | THROTTLES | frozenset(_OLDER_NAMES.split())
# What the configs begin with that one mechanism of a listener may have.
_OF_MECHANISMS = ("sasl.", "connections.max.reauth.")
_OF_SECURITY = frozenset({*definitions_of(AuthorizerTable), *definitions_of(SecurityTable)})
# Names without which the broker listens elsewhere, is not in its cluster, or lets in whom it was to keep out.
_NEEDED = _OF_SECURITY.union(
    ("node.id", "broker.id", "listeners", "advertised.listeners", "listener.security.protocol.map"),
    ("controller.listener.names", *(each for each in _KNOWN if "listener" in each)),
    definitions_of(ClusterTable),
)
# From which likeness on a name is taken for a misspelt one of these.
_MISSPELT = 0.75


def warning(
    name: str, text: str, names: Iterable[str], strict: bool = False, listeners: Iterable[str] = ()
) -> str | None:
    """Return a warning for a config that is not one of Odradek's `names`; None for one that it does not need.

    `listeners` are the names of the listeners that there are. ConfigError where it would be unsafe to ignore the
    config, and with `strict` for every unknown name.
    """
    if name in _REVOCATION and text.strip().lower() not in ("", "false"):
        raise ConfigError(name, text, "certificates are not looked up in lists of revoked ones")
    if name in _KNOWN:
        return None if name.startswith(_NOT_NEEDED) else f"config {name}: known to Kafka, not acted on by Odradek yet"
    if name.startswith(_OF_A_LISTENER):
        return _listener_warning(name, _KNOWN.union(names).difference(definitions_of(AuthorizerTable)), listeners)
    close, likeness = nearest(name, _KNOWN.union(names))
    said = f"unknown (did you mean {close}?)" if close else "unknown"
    if strict or (close in _NEEDED and likeness >= _MISSPELT):
        raise ConfigError(name, HIDDEN if close in _OF_SECURITY else text, said)
    if name.strip().lower().startswith("listener"):
        raise ConfigError(name, HIDDEN, f"unknown (the configs of a listener begin with {_OF_A_LISTENER})")
    return f"config {name}: {said}"


def _listener_warning(name: str, known: Set[str], listeners: Iterable[str]) -> str:
    """Return the warning for a listener's config that is not acted on. ConfigError for a misspelt one, or a listener.

    A listener would be open that was to ask for certificates, or to let in nobody without an ACL.
    """
    owner = next((each for each in listeners if name.startswith(f"{_OF_A_LISTENER}{each.lower()}.")), None)
    if owner is None:
        there = ", ".join(each.lower() for each in listeners)
        raise ConfigError(name, HIDDEN, f"there is no listener of this name, in lower case; there are: {there}")
    config = name.removeprefix(f"{_OF_A_LISTENER}{owner.lower()}.")
    mechanism, _, of_mechanism = config.partition(".")
    is_of_mechanism = mechanism in _MECHANISMS and of_mechanism.startswith(_OF_MECHANISMS) and of_mechanism in known
    if config in _KNOWN or is_of_mechanism:
        return f"config {name}: known to Kafka, not acted on by Odradek yet"
    if config in known:
        return f"config {name}: not acted on with the prefix of a listener"
    raise ConfigError(name, HIDDEN, f"unknown{suggestion(config, known)}")
