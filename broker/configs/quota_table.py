"""The table of the configs of quotas: how they are counted. What they are is set by AlterClientQuotas."""

from __future__ import annotations

from dataclasses import dataclass

from .definition import INT, define


# Never made by itself: BrokerConfig takes its fields, so that no methods are generated for it here.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class QuotaTable:
    """Configs of quotas, one row each."""

    # fmt: off
    quota_window_num: int = define(INT, 11, low=1,
        doc="The samples over which the rates of clients' quotas are counted.")
    quota_window_size_seconds: int = define(INT, 1, low=1,
        doc="The time of one of these samples.")
    controller_quota_window_num: int = define(INT, 11, low=1,
        doc="How many times controller.quota.window.size.seconds a client may save up of controller_mutation_rate.")
    controller_quota_window_size_seconds: int = define(INT, 1, low=1,
        doc="See controller.quota.window.num.")
    # fmt: on
