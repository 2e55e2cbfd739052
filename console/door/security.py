"""What keeps other web pages out: which hosts a request may name, where a change may come from, and its token.

A console on this machine can be reached by every web page that its user opens. So

- a request must name a host that is the console's own. Otherwise a page could reach it by a name of its own that leads
  here (DNS rebinding);
- GET and HEAD change nothing, and another page may only link to what they bring: browsers say so (Sec-Fetch-Mode);
- a POST must come from a page of the console: browsers say so (Sec-Fetch-Site, Origin), and the page's form has a token
  that only it can know;
- the content security policy runs no script and loads nothing that is not the console's.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Mapping
from hashlib import sha256

from ...web.exchange import HttpError, Request
from ...web.origin import is_from_elsewhere, names_known_host

COOKIE = "odradek_console"
# Scripts and styles come from files, and forms go to the console alone.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    # With no-referrer, browsers would not name the origin of a form.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)


def check_host(request: Request, allowed: Collection[str]) -> None:
    """Raise HttpError unless a request names this machine, an address, or an allowed host."""
    if not names_known_host(request, allowed):
        raise HttpError(403, "this console is not served under that host: `odradek console --allow-host` allows one")


def check_reader(request: Request) -> None:
    """Raise HttpError for what another web page loads, such as an image: each search or tail takes one of a few places.

    A reader who follows a link from another page is let in.
    """
    site = request.headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none") and request.headers.get("sec-fetch-mode") != "navigate":
        raise HttpError(403, "other web pages load nothing from this console")


def check_origin(request: Request) -> None:
    """Raise HttpError for a change that another page sends. Of clients that are no browser the token decides."""
    if is_from_elsewhere(request):
        raise HttpError(403, "changes come from pages of this console alone")


class Tokens:
    """Makes and checks the tokens of forms. Each browser gets a cookie, and its tokens are made from that.

    Browsers send the cookies of a host to all its ports. So the name has the port, for another console beside this one,
    and what others put into the header is passed over, whatever it is.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def session_of(self, request: Request) -> str | None:
        """Return the session of a request's cookie, None without one that was made here."""
        wanted = _cookie_name(request)
        pairs = (each.strip().partition("=") for each in request.headers.get("cookie", "").split(";"))
        for session, _, mark in (value.partition(".") for name, _, value in pairs if name == wanted):
            if session and hmac.compare_digest(mark.encode(), self._sign("session", session).encode()):
                return session
        return None

    def new_session(self) -> str:
        return secrets.token_urlsafe(24)

    def cookie(self, request: Request, session: str, *, secure: bool) -> str:
        """Return the header by which the browser of a request keeps a session."""
        value = f"{session}.{self._sign('session', session)}"
        return f"{_cookie_name(request)}={value}; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")

    def token(self, session: str) -> str:
        """Return the token for the forms of a session."""
        return self._sign("form", session)

    def check(self, session: str | None, form: Mapping[str, str]) -> None:
        """Raise HttpError unless a form has the token of its session."""
        wanted = "" if session is None else self.token(session)
        if not wanted or not hmac.compare_digest(form.get("token", "").encode(), wanted.encode()):
            raise HttpError(403, "the form is too old, or is not of this console: open its page again")

    def _sign(self, kind: str, text: str) -> str:
        return hmac.new(self._secret, f"{kind}:{text}".encode(), sha256).hexdigest()


def _cookie_name(request: Request) -> str:
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdecimal() else COOKIE
