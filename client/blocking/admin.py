"""The blocking admin client, `Admin`, and `wait_for_broker`.

with Admin("127.0.0.1:9092") as admin:
    admin.create_topics([NewTopic("flights", num_partitions=6)])
"""

from __future__ import annotations

from .. import admin as asyncio_client
from ..core import cluster
from .derivation import BlockingClient, options_of, waiting, waiting_function


class Admin(BlockingClient):
    """Administration of a cluster. Use `with`, or `start()` and `stop()`."""

    @options_of(asyncio_client.Admin)
    def __init__(self, inner: asyncio_client.Admin) -> None:
        super().__init__(inner)

    create_topics = waiting(asyncio_client.Admin.create_topics)
    delete_topics = waiting(asyncio_client.Admin.delete_topics)
    list_topics = waiting(asyncio_client.Admin.list_topics)
    describe_topics = waiting(asyncio_client.Admin.describe_topics)
    create_partitions = waiting(asyncio_client.Admin.create_partitions)
    delete_records = waiting(asyncio_client.Admin.delete_records)
    list_offsets = waiting(asyncio_client.Admin.list_offsets)
    describe_configs = waiting(asyncio_client.Admin.describe_configs)
    alter_configs = waiting(asyncio_client.Admin.alter_configs)
    describe_cluster = waiting(asyncio_client.Admin.describe_cluster)
    elect_leaders = waiting(asyncio_client.Admin.elect_leaders)
    alter_partition_reassignments = waiting(asyncio_client.Admin.alter_partition_reassignments)
    list_partition_reassignments = waiting(asyncio_client.Admin.list_partition_reassignments)
    describe_log_dirs = waiting(asyncio_client.Admin.describe_log_dirs)
    alter_replica_log_dirs = waiting(asyncio_client.Admin.alter_replica_log_dirs)
    describe_features = waiting(asyncio_client.Admin.describe_features)
    begin_backup = waiting(asyncio_client.Admin.begin_backup)
    renew_backup = waiting(asyncio_client.Admin.renew_backup)
    check_health = waiting(asyncio_client.Admin.check_health)
    placed_partitions = waiting(asyncio_client.Admin.placed_partitions)
    update_features = waiting(asyncio_client.Admin.update_features)
    describe_user_scram_credentials = waiting(asyncio_client.Admin.describe_user_scram_credentials)
    alter_user_scram_credentials = waiting(asyncio_client.Admin.alter_user_scram_credentials)
    describe_client_quotas = waiting(asyncio_client.Admin.describe_client_quotas)
    alter_client_quotas = waiting(asyncio_client.Admin.alter_client_quotas)
    describe_acls = waiting(asyncio_client.Admin.describe_acls)
    create_acls = waiting(asyncio_client.Admin.create_acls)
    delete_acls = waiting(asyncio_client.Admin.delete_acls)
    list_groups = waiting(asyncio_client.Admin.list_groups)
    describe_groups = waiting(asyncio_client.Admin.describe_groups)
    list_group_offsets = waiting(asyncio_client.Admin.list_group_offsets)
    alter_group_offsets = waiting(asyncio_client.Admin.alter_group_offsets)
    delete_group_offsets = waiting(asyncio_client.Admin.delete_group_offsets)
    delete_groups = waiting(asyncio_client.Admin.delete_groups)
    remove_group_members = waiting(asyncio_client.Admin.remove_group_members)
    explain_group = waiting(asyncio_client.Admin.explain_group)
    list_share_group_offsets = waiting(asyncio_client.Admin.list_share_group_offsets)
    alter_share_group_offsets = waiting(asyncio_client.Admin.alter_share_group_offsets)
    delete_share_group_offsets = waiting(asyncio_client.Admin.delete_share_group_offsets)
    describe_share_queue = waiting(asyncio_client.Admin.describe_share_queue)
    list_transactions = waiting(asyncio_client.Admin.list_transactions)
    list_queries = waiting(asyncio_client.Admin.list_queries)
    describe_transactions = waiting(asyncio_client.Admin.describe_transactions)
    describe_producers = waiting(asyncio_client.Admin.describe_producers)
    fence_producers = waiting(asyncio_client.Admin.fence_producers)
    abort_transaction = waiting(asyncio_client.Admin.abort_transaction)


wait_for_broker = waiting_function(cluster.wait_for_broker)
