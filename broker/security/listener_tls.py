"""The TLS of a listener that runs: its present context, the principals of its clients, and the reload of its files.

A context is made again when a connection comes and a file has changed, in a thread, at most once in `CHECK_MS`. So a
certificate that was replaced on disk is in use a second later without any command. While new files cannot be used, the
last good ones are, and a warning says so.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial

from ..clock import Clock
from ..configs.listener_config import ListenerConfig
from ..threads import Workers
from . import tls
from .certificates import CertificateError, subject_name
from .pem import StoreError
from .principal_rules import PrincipalRules
from .principals import ANONYMOUS, Principal, user

# How often connections have the files looked at.
CHECK_MS = 1_000
# How long after its begin handshakes wait for such a look.
MAX_WAIT_MS = 500

_BUSY = "too many logins and files wait for a thread: try again"

Stamps = tuple[tls.Stamp | None, ...]

_log = logging.getLogger(__name__)


class Unmapped(Exception):
    """No rule makes a user's name of a client's certificate."""


class ListenerTls:
    """Raises StoreError where its certificates, or its rules, cannot be used. `workers` read files that change."""

    def __init__(self, config: ListenerConfig, clock: Clock, workers: Workers) -> None:
        self._config = config
        self._clock = clock
        self._workers = workers
        self._loaded = tls.load(config)
        self._rules = PrincipalRules(config.ssl_principal_mapping_rules)
        # The state of the files at the last look, whether or not they could be used.
        self._seen = self._loaded.stamps
        self._checked_ms = clock.monotonic_ms()
        self._check: asyncio.Future[None] | None = None
        # The stores of another config that `read` has read, or why they cannot be used.
        self._read: tuple[ListenerConfig, tls.Loaded | StoreError] | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        return self._loaded.context

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client by its certificate in DER, which TLS has verified. Raises Unmapped."""
        if certificate is None:
            return ANONYMOUS
        try:
            subject = subject_name(certificate)
        except CertificateError as error:
            raise Unmapped(f"the client's certificate cannot be read: {error}") from None
        name = self._rules.name_of(subject)
        if name is None:
            raise Unmapped(f"no rule of ssl.principal.mapping.rules matches {subject}")
        return user(name)

    async def refresh(self) -> None:
        """Use the files' new contents, where they have changed since the last look."""
        now_ms = self._clock.monotonic_ms()
        if self._check is None:
            if now_ms - self._checked_ms < CHECK_MS:
                return
            self._checked_ms = now_ms
            self._check = asyncio.ensure_future(self._look())
        # A disk that hangs keeps nobody out: handshakes go on with the certificate of before.
        left_ms = self._checked_ms + MAX_WAIT_MS - now_ms
        if left_ms > 0:
            await asyncio.wait([self._check], timeout=left_ms / 1000)

    async def read(self, config: ListenerConfig) -> None:
        """Have a thread read the stores of another config, from the disk also where their names are the same."""
        reading = self._workers.run(partial(_load, config))
        self._read = config, StoreError(_BUSY) if reading is None else await reading

    def has_read(self, config: ListenerConfig) -> bool:
        """Return whether `read` has read the stores of this config since `forget`."""
        return self._read is not None and self._read[0] == config

    def forget(self) -> None:
        """Forget what `read` has read: files may change."""
        self._read = None

    def reconfigure(self, config: ListenerConfig) -> Callable[[], None]:
        """Check the stores that were read, and return what puts them in use. Raises StoreError."""
        assert self._read is not None and self._read[0] == config
        loaded = self._read[1]
        if isinstance(loaded, StoreError):
            raise loaded
        tls.check_replacement(self._loaded.certificate, loaded.certificate, config)

        def apply() -> None:
            self._config, self._loaded, self._seen = config, loaded, loaded.stamps
            _log.info("listener %s: new connections use the new certificate", config.name)

        return apply

    async def _look(self) -> None:
        before = self._loaded
        try:
            reading = self._workers.run(partial(_load_changed, self._config, self._seen, before.certificate))
            found = await reading if reading is not None else None
            if found is not None and self._loaded is before:
                self._take(*found)
        finally:
            self._check = None

    def _take(self, stamps: Stamps, found: tls.Loaded | StoreError) -> None:
        """Use stores that have changed, or say why they cannot be used. The same files are not read again."""
        self._seen = stamps
        name = self._config.name
        if isinstance(found, StoreError):
            _log.warning("listener %s: new connections use the certificate of before: %s", name, found)
        else:
            self._loaded = found
            _log.info("listener %s: a file has changed: new connections use the new certificate", name)


def _load(config: ListenerConfig) -> tls.Loaded | StoreError:
    """Read the stores of a config, or say why they cannot be used. Runs in a thread."""
    try:
        return tls.load(config)
    except StoreError as error:
        return error


def _load_changed(
    config: ListenerConfig, seen: Stamps, certificate: bytes
) -> tuple[Stamps, tls.Loaded | StoreError] | None:
    """Read the stores again if a file has changed. Runs in a thread.

    Return the state of the files before they were read, so that one that was half written is read again, and what was
    found or why it cannot be used.
    """
    stamps = tls.stamp(config)
    if stamps == seen:
        return None
    found = _load(config)
    try:
        if isinstance(found, tls.Loaded):
            tls.check_replacement(certificate, found.certificate, config)
    except StoreError as error:
        return stamps, error
    return stamps, found
