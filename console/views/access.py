"""Who may do what: ACLs with the question who may do this, users with their mechanisms, and quotas."""

from __future__ import annotations

from ...client import AclFilter, KafkaError
from ...client.admin.acls import OPERATIONS, PATTERNS, RESOURCES
from ...web.exchange import Response
from ..changes.access import acl_of
from ..changes.kind import InvalidForm
from ..visit import Visit, or_told
from .topics import page_of


async def acls(visit: Visit) -> Response:
    """Show the ACLs that apply to a principal or a resource, and decide whether somebody may do something."""
    admin, problems = await visit.admin(), list[str]()
    found = await or_told(admin.describe_acls(AclFilter()), [], "", problems)
    wanted = visit.text("q")
    rows = [each for each in found if wanted in each.principal or wanted in each.resource_name]
    rows.sort(key=lambda each: (each.resource_type, each.resource_name))
    decision, question = await _decision(visit)
    return visit.page(
        "acls.html", "ACLs", **page_of(visit, rows), q=wanted, problems=problems, decision=decision, question=question,
        can_ask=visit.house.decide is not None, operations=OPERATIONS, resources=RESOURCES, patterns=PATTERNS,
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
    admin, problems = await visit.admin(), list[str]()
    found = await or_told(admin.describe_user_scram_credentials(), {}, "", problems)
    return visit.page("users.html", "Users", **page_of(visit, sorted(found.items())), problems=problems)


async def quotas(visit: Visit) -> Response:
    """Show the quotas of users, client ids and addresses."""
    admin, problems = await visit.admin(), list[str]()
    found = await or_told(admin.describe_client_quotas(), {}, "", problems)
    rows = sorted(((each.parts, values) for each, values in found.items()), key=lambda row: sorted(row[0].items()))
    return visit.page("quotas.html", "Quotas", **page_of(visit, rows), problems=problems)
