"""The HTTP endpoint of a broker, put together from its parts."""

from __future__ import annotations

from ..configs.endpoint import parse_http_listener
from ..network.acceptor import Acceptor
from ..services import Services
from .endpoint import HttpEndpoint
from .pages import BrokerPages
from .scrape import Scraped
from .unread_ages import UnreadAges


def broker_endpoint(services: Services, acceptor: Acceptor) -> HttpEndpoint:
    """Return the endpoint of `http.listener`, which is not empty. It does not listen yet."""

    def connections() -> int:
        return sum(len(each.connections) for each in acceptor.processors)

    ages = UnreadAges(services.threads, services.disk)
    scraped = Scraped(services, connections, lambda: acceptor.listening, ages)
    return HttpEndpoint(*parse_http_listener(services.config.http_listener), BrokerPages(scraped))
