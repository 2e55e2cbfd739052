"""Every config changes what the broker does: three modules show it, or ELSEWHERE names the test that does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.broker_config import BROKER_CONFIGS
from odradek.storage.files import DISK
from odradek.tests.broker.configs import coordinator_configs_act, log_configs_act, server_configs_act, share_configs_act
from odradek.tests.broker.configs.world import SHOWN, World
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.fakes.clock import FakeClock

TESTS = Path(__file__).parents[2]
# The modules whose functions show a config at work.
SHOWS = (coordinator_configs_act, log_configs_act, server_configs_act, share_configs_act)
# name -> the test that shows it
CLEANER_RULES = "broker/background/test_cleaner.py::test_the_brokers_configs_reach_a_topics_rules"
REPLICATION = "broker/replication/test_replica_configs.py::"
REQUESTS = "broker/replication/test_fetch_session.py::"
MEMBER = "broker/cluster/test_member.py::"
CHANGES = "broker/cluster/test_changes.py::"
THROTTLE = "broker/replication/test_throttle.py::"
ACCESS = "broker/network/access/test_access.py::"
LEAVING = "broker/cluster/test_leaving.py::"
TLS = "broker/network/test_tls.py::"
ZOOKEEPER = "broker/cluster/test_secure_zookeeper.py::"
ZOOKEEPER_LOGIN = "broker/cluster/test_zookeeper_login.py::"
SECURE = "broker/cluster/test_secure_brokers.py::"
LOGIN = "broker/network/test_login.py::"
SIGNED = LOGIN + "test_a_signed_token_is_checked_by_the_keys_of_its_issuer"
INTER_BROKER = "broker/configs/test_broker_config.py::test_brokers_reach_each_other_at_the_listener_of_the_configs"
QUOTAS = "broker/quotas/test_client_quotas.py::"
LIMITS = "broker/network/test_connection_limits.py::"
SHARE_STATES = "broker/coordination/share_states/test_on_the_wire.py::"
DEAD_LETTERS = "broker/share_partitions/test_dead_letters.py::"
ELSEWHERE = {
    "errors.deadletterqueue.auto.create.topics.enable": (
        DEAD_LETTERS + "test_the_topic_is_created_with_the_first_dead_letter"
    ),
    "errors.deadletterqueue.topic.name.prefix": DEAD_LETTERS + "test_any_name_will_do_where_the_prefix_is_empty",
    "group.share.max.share.sessions": "broker/handlers/test_share_fetch.py::test_there_are_at_most_so_many_sessions",
    "max.connections.per.ip.overrides": LIMITS + "test_an_address_may_have_a_limit_of_its_own",
    "max.connection.creation.rate": LIMITS + "test_a_connection_over_the_rate_is_served_later",
    "quota.window.num": QUOTAS + "test_the_configs_say_over_how_many_samples_rates_are_counted",
    "quota.window.size.seconds": QUOTAS + "test_the_configs_say_over_how_many_samples_rates_are_counted",
    "controller.quota.window.num": QUOTAS + "test_the_configs_say_how_many_mutations_may_be_saved_up",
    "controller.quota.window.size.seconds": QUOTAS + "test_the_configs_say_how_many_mutations_may_be_saved_up",
    "ssl.keystore.type": TLS + "test_what_cannot_work_is_refused_in_one_line",
    "ssl.keystore.password": TLS + "test_what_cannot_work_is_refused_in_one_line",
    "ssl.truststore.type": TLS + "test_what_cannot_work_is_refused_in_one_line",
    "ssl.truststore.password": TLS + "test_what_cannot_work_is_refused_in_one_line",
    "ssl.keystore.key": TLS + "test_a_key_may_be_given_inline_in_each_form",
    "ssl.keystore.certificate.chain": TLS + "test_a_key_may_be_given_inline_in_each_form",
    "ssl.key.password": TLS + "test_a_key_may_be_given_inline_in_each_form",
    "ssl.truststore.location": TLS + "test_a_client_certificate_says_who_the_client_is",
    "ssl.client.auth": TLS + "test_a_client_certificate_says_who_the_client_is",
    "ssl.principal.mapping.rules": TLS + "test_a_client_certificate_says_who_the_client_is",
    "ssl.enabled.protocols": TLS + "test_versions_and_ciphers_are_those_of_the_configs",
    "ssl.cipher.suites": TLS + "test_versions_and_ciphers_are_those_of_the_configs",
    "ssl.allow.dn.changes": TLS + "test_a_certificate_that_lacks_a_name_is_rejected_unless_that_is_allowed",
    "ssl.allow.san.changes": TLS + "test_a_certificate_that_lacks_a_name_is_rejected_unless_that_is_allowed",
    "ssl.keystore.location": TLS + "test_records_of_any_size_come_through",
    "ssl.truststore.certificates": TLS + "test_a_requested_certificate_may_be_left_out",
    "sasl.enabled.mechanisms": LOGIN + "test_an_unknown_mechanism_is_answered_with_those_that_are_enabled",
    "sasl.jaas.config": LOGIN + "test_what_cannot_work_is_refused_in_one_line",
    "sasl.server.max.receive.size": LOGIN + "test_a_frame_before_the_login_may_not_be_large",
    "connections.max.reauth.ms": LOGIN + "test_a_session_is_renewed_in_time_or_closed",
    "connection.failed.authentication.delay.ms": LOGIN + "test_the_answer_to_a_failure_is_held_back",
    "sasl.server.callback.handler.class": SIGNED,
    "sasl.oauthbearer.jwks.endpoint.url": SIGNED,
    "sasl.oauthbearer.clock.skew.seconds": SIGNED,
    "sasl.oauthbearer.expected.audience": SIGNED,
    "sasl.oauthbearer.expected.issuer": SIGNED,
    "sasl.oauthbearer.allow.unverified.audience": LOGIN + "test_what_cannot_work_is_refused_in_one_line",
    "sasl.oauthbearer.allow.unverified.issuer": LOGIN + "test_what_cannot_work_is_refused_in_one_line",
    "sasl.oauthbearer.scope.claim.name": SIGNED,
    "sasl.oauthbearer.sub.claim.name": SIGNED,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (
        "broker/security/sasl/test_signed_tokens.py::test_keys_are_read_again_when_they_are_old"
    ),
    "inter.broker.listener.name": INTER_BROKER,
    "security.inter.broker.protocol": INTER_BROKER,
    "zookeeper.connect": MEMBER + "test_a_cluster_is_what_zookeeper_holds_and_what_clients_are_told",
    "zookeeper.session.timeout.ms": MEMBER + "test_an_earlier_run_of_the_same_broker_is_waited_for",
    "zookeeper.connection.timeout.ms": MEMBER + "test_no_zookeeper_refuses_the_start_within_the_connection_timeout",
    "broker.id.generation.enable": MEMBER + "test_a_broker_without_a_number_gets_the_next_one_and_keeps_it",
    "reserved.broker.max.id": MEMBER + "test_a_broker_without_a_number_gets_the_next_one_and_keeps_it",
    "offsets.topic.replication.factor": CHANGES + "test_a_topic_that_is_needed_is_asked_of_the_controller",
    "transaction.state.log.replication.factor": CHANGES + "test_a_topic_that_is_needed_is_asked_of_the_controller",
    "transaction.state.log.min.isr": CHANGES + "test_a_topic_that_is_needed_is_asked_of_the_controller",
    "controller.socket.timeout.ms": LEAVING + "test_a_controller_that_does_not_answer_is_given_up",
    "unclean.leader.election.enable": CHANGES + "test_a_replica_that_lags_leads_only_where_that_is_allowed",
    "auto.leader.rebalance.enable": CHANGES + "test_a_preferred_leader_leads_again_when_asked_or_by_itself",
    "leader.imbalance.check.interval.seconds": CHANGES + "test_a_preferred_leader_leads_again_when_asked_or_by_itself",
    "leader.imbalance.per.broker.percentage": CHANGES + "test_a_preferred_leader_leads_again_when_asked_or_by_itself",
    "controlled.shutdown.enable": MEMBER + "test_leaders_move_away_before_a_broker_stops",
    "controlled.shutdown.max.retries": LEAVING + "test_it_asks_until_it_leads_nothing_or_often_enough",
    "controlled.shutdown.retry.backoff.ms": LEAVING + "test_it_waits_for_the_backoff_between_two_requests",
    "num.replica.fetchers": REPLICATION + "test_partitions_are_fetched_over_several_connections",
    "replica.fetch.min.bytes": REQUESTS + "test_a_request_has_the_limits_of_the_configs",
    "replica.fetch.max.bytes": REQUESTS + "test_a_request_has_the_limits_of_the_configs",
    "replica.fetch.response.max.bytes": REQUESTS + "test_a_request_has_the_limits_of_the_configs",
    "replica.fetch.wait.max.ms": REQUESTS + "test_a_request_has_the_limits_of_the_configs",
    "replica.fetch.backoff.ms": REPLICATION + "test_a_partition_that_failed_waits_before_it_is_fetched_again",
    "replica.socket.timeout.ms": REPLICATION + "test_a_leader_that_is_silent_is_given_up",
    "replica.lag.time.max.ms": REPLICATION + "test_a_follower_that_does_not_fetch_leaves_the_isr_and_comes_back",
    "replica.high.watermark.checkpoint.interval.ms": REPLICATION + "test_high_watermarks_are_written_down",
    "replica.selector.class": REPLICATION + "test_a_consumer_is_sent_to_the_replica_in_its_rack",
    "leader.replication.throttled.rate": THROTTLE + "test_a_follower_that_is_behind_waits_and_others_do_not",
    "follower.replication.throttled.rate": THROTTLE + "test_a_follower_that_is_behind_waits_and_others_do_not",
    "replication.quota.window.num": THROTTLE + "test_a_rate_is_that_of_the_last_samples",
    "replication.quota.window.size.seconds": THROTTLE + "test_a_rate_is_that_of_the_last_samples",
    "log.cleanup.policy": CLEANER_RULES,
    "log.cleaner.min.cleanable.ratio": CLEANER_RULES,
    "log.cleaner.min.compaction.lag.ms": CLEANER_RULES,
    "log.cleaner.max.compaction.lag.ms": CLEANER_RULES,
    "log.cleaner.delete.retention.ms": CLEANER_RULES,
    "log.cleaner.enable": "broker/background/test_cleaner.py::test_without_a_cleaner_nothing_is_cleaned",
    "log.cleaner.threads": "broker/background/test_cleaner.py::test_without_a_cleaner_nothing_is_cleaned",
    "log.cleaner.backoff.ms": (
        "broker/background/test_cleaner.py::test_a_compacted_topic_is_cleaned_and_an_ordinary_one_is_not"
    ),
    "log.cleaner.dedupe.buffer.size": (
        "storage/compaction/test_compaction.py::test_keys_that_do_not_fit_are_left_for_the_next_cleaning"
    ),
    "log.cleaner.io.max.bytes.per.second": (
        "broker/background/test_cleaner.py::test_a_stop_in_the_middle_of_a_cleaning_loses_nothing"
    ),
    "share.coordinator.snapshot.update.records.per.snapshot": (
        SHARE_STATES + "test_every_so_many_updates_a_snapshot_holds_all"
    ),
    "share.coordinator.state.topic.prune.interval.ms": (
        SHARE_STATES + "test_records_before_every_last_snapshot_are_deleted"
    ),
    "share.coordinator.cold.partition.snapshot.interval.ms": (
        SHARE_STATES + "test_records_before_every_last_snapshot_are_deleted"
    ),
    "share.coordinator.state.topic.replication.factor": CHANGES
    + "test_a_topic_that_is_needed_is_asked_of_the_controller",
    "share.coordinator.state.topic.min.isr": CHANGES + "test_a_topic_that_is_needed_is_asked_of_the_controller",
    "http.listener": "broker/http/test_pages.py::test_a_port_alone_listens_on_loopback",
    "metrics.max.topics": "broker/http/test_pages.py::test_topics_and_groups_beyond_the_bounds_are_summed",
    "metrics.max.groups": "broker/http/test_pages.py::test_topics_and_groups_beyond_the_bounds_are_summed",
    "node.id": "broker/log_dirs/test_data_dir.py::test_the_directory_of_another_node_is_rejected_and_left_unchanged",
    "broker.id": "broker/configs/test_broker_config.py::test_broker_id_is_node_id_under_its_older_name",
    "listeners": "broker/test_server.py::test_several_listeners_each_with_its_name_and_port",
    "advertised.listeners": "broker/test_server.py::test_several_listeners_each_with_its_name_and_port",
    "listener.security.protocol.map": "broker/test_server.py::test_several_listeners_each_with_its_name_and_port",
    "controller.listener.names": (
        "broker/configs/test_broker_config.py::test_a_combined_kafka_node_loses_its_controller_listener"
    ),
    "log.dir": "broker/configs/test_configs_act.py::test_log_dir_is_the_data_directory_unless_log_dirs_is_set",
    "log.dirs": "broker/configs/test_configs_act.py::test_log_dir_is_the_data_directory_unless_log_dirs_is_set",
    "metadata.log.dir": "broker/log_dirs/test_log_dirs.py::test_a_directory_may_hold_the_metadata_alone",
    "log.retention.ms": "broker/background/test_retention.py::test_topics_inherit_the_brokers_retention_time",
    "log.retention.minutes": "broker/background/test_retention.py::test_topics_inherit_the_brokers_retention_time",
    "log.retention.hours": "broker/background/test_retention.py::test_topics_inherit_the_brokers_retention_time",
    "log.retention.bytes": "broker/background/test_retention.py::test_topics_inherit_the_brokers_retention_bytes",
    "log.retention.check.interval.ms": (
        "broker/background/test_retention.py::test_retention_by_time_deletes_segments_whose_newest_record_is_too_old"
    ),
    "log.retention.policy": "broker/background/test_retention.py::test_a_users_own_policy_decides",
    "log.segment.delete.delay.ms": (
        "broker/background/test_retention.py::test_topics_inherit_the_brokers_file_delete_delay"
    ),
    "log.flush.offset.checkpoint.interval.ms": (
        "broker/topics/test_flusher.py::test_a_checkpoint_that_fails_is_a_line_in_the_log_and_the_next_one_comes"
    ),
    "default.replication.factor": CHANGES + "test_topics_are_created_grown_and_deleted_on_every_broker",
    "auto.create.topics.enable": "broker/handlers/test_topics.py::test_auto_creation_switched_off",
    "delete.topic.enable": "broker/handlers/test_topics.py::test_deletion_can_be_switched_off",
    "socket.receive.buffer.bytes": "broker/test_server.py::test_have_the_socket_buffers_of_the_config",
    "socket.send.buffer.bytes": "broker/test_server.py::test_have_the_socket_buffers_of_the_config",
    "num.network.threads": "broker/test_server.py::test_take_turns_at_the_processors",
    "connections.max.idle.ms": (
        "adversity/test_bad_input.py::test_a_client_that_reads_nothing_for_so_long_is_closed_as_an_idle_one"
    ),
    "max.connections": "broker/test_server.py::test_over_max_connections_are_refused",
    "max.connections.per.ip": "broker/test_server.py::test_over_max_connections_of_an_address_are_refused",
    "max.decompressed.message.bytes": (
        "broker/handlers/test_list_offsets.py::test_a_record_that_grows_too_much_is_neither_taken_nor_passed_over"
    ),
    "max.incremental.fetch.session.cache.slots": (
        "broker/handlers/test_fetch.py::test_without_a_free_slot_there_is_no_session_but_an_answer"
    ),
    "producer.id.expiration.check.interval.ms": (
        "broker/background/test_producer_expiry.py::test_a_silent_producer_expires_without_any_request"
    ),
    "max.producer.ids": (
        "broker/topics/test_producer_limit.py::"
        "test_a_new_producer_id_past_the_limit_gets_an_error_and_known_ones_write_on"
    ),
    "authorizer.class.name": ACCESS + "test_an_acl_counts_at_once_and_for_every_connection",
    "sasl.mechanism.inter.broker.protocol": SECURE + "test_brokers_replicate_through_tls_and_sasl",
    "ssl.endpoint.identification.algorithm": SECURE + "test_a_certificate_of_another_host_is_not_trusted",
    "zookeeper.ssl.client.enable": ZOOKEEPER + "test_tls_with_a_certificate_and_znodes_of_the_broker_alone",
    "zookeeper.ssl.keystore.location": ZOOKEEPER + "test_tls_with_a_certificate_and_znodes_of_the_broker_alone",
    "zookeeper.ssl.truststore.location": ZOOKEEPER + "test_a_certificate_that_is_not_trusted_is_named",
    "zookeeper.set.acl": ZOOKEEPER + "test_a_login_and_znodes_of_the_broker_alone",
    "java.security.auth.login.config": ZOOKEEPER + "test_a_login_and_znodes_of_the_broker_alone",
    "zookeeper.ssl.keystore.password": ZOOKEEPER_LOGIN + "test_the_key_may_be_encrypted",
    "zookeeper.ssl.keystore.type": ZOOKEEPER_LOGIN + "test_a_store_is_pem_by_its_type_or_its_name",
    "zookeeper.ssl.truststore.type": ZOOKEEPER_LOGIN + "test_a_store_is_pem_by_its_type_or_its_name",
    "zookeeper.ssl.truststore.password": ZOOKEEPER_LOGIN + "test_what_cannot_be_read_is_refused_in_one_line",
    "zookeeper.ssl.protocol": ZOOKEEPER_LOGIN + "test_the_versions_and_suites_are_those_of_the_configs",
    "zookeeper.ssl.enabled.protocols": ZOOKEEPER_LOGIN + "test_the_versions_and_suites_are_those_of_the_configs",
    "zookeeper.ssl.cipher.suites": ZOOKEEPER_LOGIN + "test_the_versions_and_suites_are_those_of_the_configs",
    "zookeeper.ssl.endpoint.identification.algorithm": ZOOKEEPER_LOGIN
    + "test_the_host_is_checked_unless_the_algorithm_is_empty",
    "super.users": ACCESS + "test_an_acl_counts_at_once_and_for_every_connection",
    "allow.everyone.if.no.acl.found": ACCESS + "test_everyone_may_use_what_has_no_acl_where_that_is_set",
    "direct.read.max.leases": "broker/topics/test_segment_leases.py::test_no_more_than_so_many",
    "direct.read.lease.ms": "broker/topics/test_segment_leases.py::test_a_lease_that_nobody_renews_expires",
    "direct.read.lease.max.ms": (
        "broker/topics/test_segment_leases.py::test_a_lease_lasts_while_it_is_renewed_but_not_for_ever"
    ),
    "add.partitions.to.txn.retry.backoff.ms": (
        "broker/coordination/transactions/test_verification.py::test_the_coordinator_is_asked_again_after_the_backoff"
    ),
    "add.partitions.to.txn.retry.backoff.max.ms": (
        "broker/replication/test_early_transactions.py::test_a_producer_is_told_to_come_again_once_the_wait_is_over"
    ),
    "producer.id.expiration.ms": (
        "broker/configs/test_configs_act.py::test_a_silent_producer_is_remembered_for_producer_id_expiration_ms"
    ),
}


@pytest.mark.parametrize("name", SHOWN)
async def test_acts(config: BrokerConfig, name: str) -> None:
    given, show = SHOWN[name]
    clock = FakeClock()
    config = replace(config, **given)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await show(World(broker, raw, clock))


def test_every_config_is_shown_to_act() -> None:
    assert sorted([*SHOWN, *ELSEWHERE]) == sorted(BROKER_CONFIGS)


@pytest.mark.parametrize("where", sorted(set(ELSEWHERE.values())))
def test_every_test_that_the_table_names_exists(where: str) -> None:
    path, _, test = where.partition("::")
    assert f"def {test}" in (TESTS / path).read_text()


async def test_log_dir_is_the_data_directory_unless_log_dirs_is_set(config: BrokerConfig, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for dirs, used in ((None, one), ((str(other),), other)):
        async with Broker(replace(config, log_dir=(str(one),), log_dirs=dirs)):
            assert DISK.exists(used / "meta.properties")
            assert DISK.exists(other) is (used == other)


async def test_a_silent_producer_is_remembered_for_producer_id_expiration_ms(config: BrokerConfig) -> None:
    clock = FakeClock()
    config = replace(config, producer_id_expiration_ms=1000)
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    for passed_ms, offset in ((0, 0), (999, 0), (1000, 1)):
        # A restart is one of the moments at which they are forgotten.
        clock.advance(passed_ms)
        async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
            if not passed_ms:
                await raw.create_topic("t")
            assert (await raw.produce("t", batch)).base_offset == offset
