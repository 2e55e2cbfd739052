"""Groups of every kind: the list, and one group with its members, its lag, and why it rebalanced."""

from __future__ import annotations

from ...client import KafkaError
from ...client.admin.group_resets import SHARE
from ...client.core.descriptions import GroupRebalance
from ...web.exchange import HttpError, Response
from ..reading.group_offsets import progress_of
from ..visit import Visit, or_told
from .topics import page_of

# The last rebalances of a page.
MAX_REBALANCES = 50
MAX_ROWS = 1_000


async def all_groups(visit: Visit) -> Response:
    """Show the groups whose ids contain a text, those with the largest lag first if that is wanted."""
    admin = await visit.admin()
    wanted, sort = visit.text("q"), visit.choice("sort", ("name", "-lag", "-seconds"))
    sample = await visit.history.sample()
    rows = [(each, sample.groups.get(each.group_id)) for each in await admin.list_groups() if wanted in each.group_id]
    if sort != "name":
        rows.sort(key=lambda row: -((row[1] and (row[1].lag if sort == "-lag" else row[1].lag_s)) or 0))
    return visit.page(
        "groups.html", "Groups", **page_of(visit, rows), sort=sort, q=wanted, sample=sample, error=visit.history.error
    )


async def one_group(visit: Visit) -> Response:
    """Show a group: members, lag, what they wait for, and its rebalances."""
    group = visit.text("id")
    admin = await visit.admin()
    listing = next((each for each in await admin.list_groups() if each.group_id == group), None)
    if listing is None:
        raise HttpError(404, f"There is no group {group!r}.")
    problems: list[str] = []
    described = (await or_told(admin.describe_groups(group), {}, "The members are not known", problems)).get(group)
    progress = await or_told(progress_of(admin, group, listing.type), [], "The offsets are not known", problems)
    queue = None
    if listing.type == SHARE:
        what = "What waits and what is dead is not known"
        queue = await or_told(admin.describe_share_queue(group), None, what, problems)
    rebalances, why_none = await _rebalances(visit, group, listing.type)
    owners = {} if described is None else {each: member for member in described.members for each in member.partitions}
    sample = (await visit.history.sample()).groups.get(group)
    return visit.page(
        "group.html", group or "(a group without a name)", group=group, listing=listing, described=described,
        progress=progress[:MAX_ROWS], left_out=len(progress) - MAX_ROWS, owners=owners, problems=problems,
        lag=sum(each.lag or 0 for each in progress), lag_s=None if sample is None else sample.lag_s,
        rebalances=rebalances, why_none=why_none, queue=queue, states=visit.history.states(group),
    )  # fmt: skip


async def _rebalances(visit: Visit, group: str, kind: str) -> tuple[list[GroupRebalance], str]:
    """Return the rebalances that the broker remembers, the newest first, or why there are none."""
    admin = await visit.admin()
    if kind not in ("", "classic"):
        return (
            [],
            f"A {kind} group does not stop to rebalance: its members give partitions up and take them one by one.",
        )
    try:
        return (await admin.explain_group(group))[::-1][:MAX_REBALANCES], ""
    except KafkaError as error:
        return [], error.message
