"""The fixtures under test, and pytester for the plugin itself."""

from __future__ import annotations

from odradek.testing.plugin import (
    _kafka_of_worker as _kafka_of_worker,
)
from odradek.testing.plugin import (
    kafka as kafka,
)
from odradek.testing.plugin import (
    kafka_address as kafka_address,
)
from odradek.testing.plugin import (
    kafka_clock as kafka_clock,
)
from odradek.testing.plugin import (
    kafka_cluster as kafka_cluster,
)
from odradek.testing.plugin import (
    kafka_factory as kafka_factory,
)
from odradek.testing.plugin import (
    kafka_module as kafka_module,
)
from odradek.testing.plugin import (
    kafka_process as kafka_process,
)
from odradek.testing.plugin import (
    kafka_session as kafka_session,
)
from odradek.testing.plugin import (
    kafka_topic as kafka_topic,
)
from odradek.testing.plugin import (
    simulation as simulation,
)

# A project of its own, which test_sample_project.py runs.
collect_ignore = ["sample_project"]
