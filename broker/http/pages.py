"""The pages of the HTTP endpoint: `/live`, `/ready`, and three pages of metrics. There is nothing else.

`/live` is 200 whenever the event loop answers. `/ready` is 200 or 503, with a JSON object that lists the reasons.
"""

from __future__ import annotations

import json
import logging
from http import HTTPStatus

from ...web.origin import is_loopback
from ..configs.endpoint import parse_http_listener
from ..network.acceptor import Acceptor
from ..services import Services
from .endpoint import HttpEndpoint, Page
from .kafka_page import kafka_page, partition_page
from .own_page import own_page, unready_reasons
from .scrape import MakePage, ScrapedBroker
from .unread_ages import UnreadAges

# What is said of an endpoint that others reach, where clients see what they may describe.
_OPEN = (
    "http.listener=%s is open: everybody who reaches it reads the names of topics and groups, whatever the ACLs say. "
    "Let it listen on 127.0.0.1, and a proxy on this machine ask for a login (docs/security.md)"
)

_log = logging.getLogger(__name__)

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
# The pages of metrics, by path.
PAGES: dict[str, MakePage] = {"/metrics": own_page, "/metrics/partitions": partition_page, "/metrics/kafka": kafka_page}


class BrokerPages:
    """The pages of one broker."""

    def __init__(self, scraped: ScrapedBroker) -> None:
        self._scraped = scraped

    async def __call__(self, path: str) -> Page:
        """Return the page of a path; 404 for one that is none."""
        if path == "/live":
            return Page.of_text(HTTPStatus.OK, "alive\n")
        if path == "/ready":
            return self._ready()
        page = PAGES.get(path)
        if page is None:
            return Page.of_text(HTTPStatus.NOT_FOUND, f"the pages are /live, /ready, {', '.join(PAGES)}\n")
        return Page(HTTPStatus.OK, PROMETHEUS, await page(self._scraped))

    def _ready(self) -> Page:
        reasons = list(unready_reasons(self._scraped.services, self._scraped.acceptor.listening))
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        text = json.dumps({"ready": not reasons, "reasons": reasons}) + "\n"
        return Page.of_text(status, text, "application/json")


def broker_endpoint(services: Services, acceptor: Acceptor) -> HttpEndpoint:
    """Return the endpoint of `http.listener`, which is not empty. It does not listen yet."""
    scraped = ScrapedBroker(services, acceptor, UnreadAges(services.threads, services.disk))
    host, port = parse_http_listener(services.config.http_listener)
    if services.config.authorizer_class_name and not is_loopback(host):
        _log.warning(_OPEN, services.config.http_listener)
    return HttpEndpoint(host, port, BrokerPages(scraped))
