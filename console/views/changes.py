"""Changes: the form of each kind, its preview with the command line that does the same, and what was changed.

A form is sent twice: the first time shows what it would do, the second time, with `step=apply`, does it. Where what
was shown is not there any more (somebody else has changed it, or this was sent already), it is shown again.
"""

from __future__ import annotations

from ...client import KafkaError
from ...client.core.clock import wall_clock_ms
from ...web.exchange import HttpError, Response
from ..changes import access, groups, records, topics
from ..changes.kind import Kind
from ..journal import Change
from ..visit import Visit

# By the last part of a form's path.
KINDS: dict[str, Kind] = {**topics.KINDS, **records.KINDS, **groups.KINDS, **access.KINDS}


async def form(visit: Visit) -> Response:
    """Show the form of a kind of change; of a POST the preview, or make the change."""
    kind = KINDS.get(visit.names[0])
    if kind is None:
        raise HttpError(404, "There is no such change.")
    posted = visit.request.method == "POST"
    fields = {each.name: (visit.form if posted else visit.query).get(each.name, each.default) for each in kind.fields}
    change, problem = None, ""
    if posted:
        try:
            change = await kind.prepare(visit, await visit.admin(), fields)
        except (HttpError, KafkaError) as error:
            problem = str(error)
    status = 400 if problem else 200
    if change is not None and visit.form.get("step") == "apply":
        if visit.form.get("seen") == change.seen:
            return await _apply(visit, change)
        status, problem = 409, "It is not as it was shown: somebody has changed it since. Nothing was done; look again."
    return visit.page(
        "change.html", kind.title, status, kind=kind, fields=fields, change=change, problem=problem,
        command_line=change.command_line(visit.house.address) if change else "",
    )  # fmt: skip


async def _apply(visit: Visit, change: Change) -> Response:
    error = ""
    try:
        await change.apply()
    except KafkaError as failed:
        error = failed.message
    entry = visit.house.journal.add(change, visit.house.address, visit.user, wall_clock_ms(), error)
    return Response(303, b"", headers=[("location", f"/changes/{entry.number}")])


async def journal(visit: Visit) -> Response:
    """Show what this user has changed by this console, the newest first."""
    entries = [each for each in visit.house.journal.entries() if each.user == visit.user]
    return visit.page("changes.html", "Changes", entries=entries, kinds=KINDS)


async def entry(visit: Visit) -> Response:
    """Show one change: whether it was made, and the command line that does the same."""
    (number,) = visit.names
    found = visit.house.journal.entry(int(number)) if number.isdecimal() and len(number) < 12 else None
    if found is None or found.user != visit.user:
        raise HttpError(404, "That change is not remembered: this console keeps the last ones, until it stops.")
    return visit.page("entry.html", found.title, entry=found)
