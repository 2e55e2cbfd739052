"""The table of the configs of the authorizer: whether there is one, and whom it never denies anything."""

from __future__ import annotations

from dataclasses import dataclass

from .definition import BOOLEAN, STRING, ConfigError, define

# Kafka's names of its authorizers. Either turns on the one that Odradek has.
AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)


def _check_authorizer(name: str) -> str | None:
    return None if name in ("", *AUTHORIZERS) else f"must be one of {', '.join(AUTHORIZERS)}, or empty for none"


def _check_super_users(text: str) -> str | None:
    wrong = next((each for each in _split(text) if ":" not in each.strip(":")), None)
    return None if wrong is None else f"must be TYPE:NAME;TYPE:NAME, as User:admin, not {wrong!r}"


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(";") if each.strip()]


# Never made by itself: BrokerConfig takes its fields, so that no methods are generated for it here.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AuthorizerTable:
    """Configs of the authorizer, one row each."""

    # fmt: off
    authorizer_class_name: str = define(STRING, "", check=_check_authorizer,
        doc="Who may do what is decided by ACLs, with either of Kafka's names for its authorizer. Empty: everyone may "
            "do everything.")
    super_users: str = define(STRING, "", check=_check_super_users,
        doc="Principals that may do everything, whatever the ACLs say: User:admin;User:CN=ops,O=Acme.")
    allow_everyone_if_no_acl_found: bool = define(BOOLEAN, False,
        doc="Everyone may use a resource for which there is no ACL of anybody.")
    # fmt: on

    @property
    def super_user_names(self) -> list[str]:
        """The principals of super.users."""
        return _split(self.super_users)


def check_authorizer(table: AuthorizerTable) -> None:
    """Raise ConfigError where the configs of the authorizer cannot be used together."""
    has_authorizer = bool(table.authorizer_class_name)
    if table.super_users and not has_authorizer:
        raise ConfigError("super.users", table.super_users, "needs authorizer.class.name")
    if table.allow_everyone_if_no_acl_found and not has_authorizer:
        raise ConfigError("allow.everyone.if.no.acl.found", "true", "needs authorizer.class.name")
