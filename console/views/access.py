"""Who may do what: ACLs with the question who may do this, users with their mechanisms, and quotas."""

from __future__ import annotations

from ...client import Acl, AclFilter, KafkaError
from ...client.admin.acls import OPERATIONS, PATTERNS, RESOURCES
from ...web.exchange import Response
from ..changes.access import acl_of
from ..changes.kind import InvalidForm
from ..visit import Visit
from .topics import page_of


async def acls(visit: Visit) -> Response:
    """Show the ACLs that apply to a principal or a resource, and decide whether somebody may do something."""
    problem, rows = "", list[Acl]()
    admin = await visit.admin()
    try:
        rows = sorted(await admin.describe_acls(AclFilter()), key=lambda each: (each.resource_type, each.resource_name))
    except KafkaError as error:
        problem = error.message
    wanted = visit.text("q")
    rows = [each for each in rows if wanted in each.principal or wanted in each.resource_name]
    shown, page, pages = page_of(visit, rows)
    decision, question = await _decision(visit)
    return visit.page(
        "acls.html", "ACLs", rows=shown, count=len(rows), page=page, pages=pages, q=wanted, problem=problem,
        decision=decision, question=question, can_ask=visit.house.decide is not None, operations=OPERATIONS,
        resources=RESOURCES, patterns=PATTERNS,
    )  # fmt: skip


async def _decision(visit: Visit) -> tuple[tuple[bool, str] | None, str]:
    """Return whether what the query asks for is allowed, with the rule that decides; the problem of a bad question."""
    decide = visit.house.decide
    if decide is None or not visit.text("principal"):
        return None, ""
    fields = {"pattern": "literal", "permission": "allow", "host": "*", "name": "", **visit.query}
    try:
        return await decide(await visit.admin(), acl_of(fields)), ""
    except (InvalidForm, KafkaError) as error:
        return None, str(error)


async def users(visit: Visit) -> Response:
    """Show the users that have a SCRAM password, and the quotas."""
    admin = await visit.admin()
    problems: list[str] = []
    found: dict[str, dict[str, int]] = {}
    try:
        found = await admin.describe_user_scram_credentials()
    except KafkaError as error:
        problems.append(error.message)
    shown, page, pages = page_of(visit, sorted(found.items()))
    return visit.page("users.html", "Users", rows=shown, page=page, pages=pages, count=len(found), problems=problems)


async def quotas(visit: Visit) -> Response:
    """Show the quotas of users, client ids and addresses."""
    admin = await visit.admin()
    problem, rows = "", list[tuple[dict[str, str], dict[str, float]]]()
    try:
        found = await admin.describe_client_quotas()
        rows = sorted(((each.parts, values) for each, values in found.items()), key=lambda row: sorted(row[0].items()))
    except KafkaError as error:
        problem = error.message
    shown, page, pages = page_of(visit, rows)
    return visit.page("quotas.html", "Quotas", rows=shown, page=page, pages=pages, count=len(rows), problem=problem)
