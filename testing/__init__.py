"""The test kit: Kafka in a test, with faults and time in the test's hand.

    def test_orders(kafka):                     # a fixture of pytest, after pip install 'odradek[test]'
        kafka.create_topic("orders", partitions=3)
        run_my_service(kafka.address)
        assert [record.value for record in kafka.records("paid")] == [b"..."]

Without pytest: `with odradek.testing.kafka() as kafka:`. Python loads these names at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .cluster import KafkaCluster as KafkaCluster
    from .cluster import kafka_cluster as kafka_cluster
    from .local import LocalKafka as LocalKafka
    from .local import kafka as kafka
    from .process import KafkaProcess as KafkaProcess
    from .record import Record as Record
    from .remote import Kafka as Kafka
    from .schema_registry import LocalSchemaRegistry as LocalSchemaRegistry
    from .simulation.program import Simulation as Simulation
    from .simulation.program import simulate as simulate

_MODULES = {
    "cluster": "KafkaCluster kafka_cluster",
    "local": "LocalKafka kafka",
    "process": "KafkaProcess",
    "record": "Record",
    "remote": "Kafka",
    "schema_registry": "LocalSchemaRegistry",
    "simulation.program": "Simulation simulate",
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
if not TYPE_CHECKING:
    __all__ = __dir__()
