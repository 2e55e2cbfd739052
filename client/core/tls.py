"""TLS of the client: its context, made again when the files behind it change, and what a failed handshake means.

A certificate that was replaced on disk is used by the next connection. While new files cannot be read, the last good
ones are used, and a warning says so.
"""

from __future__ import annotations

import logging
import os
import ssl

from ..errors import AuthenticationFailed, ConnectionLost, InvalidOption, KafkaError
from .security import SecurityOptions

_log = logging.getLogger(__name__)

# OpenSSL's numbers of what is wrong with a certificate: the host name, the address, and the time.
_WRONG_HOST = (62, 64)
_NOT_YET_VALID, _EXPIRED = 9, 10
# What ssl.VERIFY_X509_STRICT finds: X509_V_ERR_PATHLEN_INVALID_FOR_NON_CA to X509_V_ERR_EXTENSIONS_REQUIRE_VERSION_3.
_NOT_STRICT = range(80, 94)
# How OpenSSL names an answer that is no TLS at all.
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
# Alerts by which a broker rejects a client without a certificate, or with one that it does not trust. The second one
# may also mean that the two have no cipher in common.
_NEEDS_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
_REJECTS_CERTIFICATE = ("BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED")

# What tells that a file was replaced.
Stamp = tuple[int, int, int]


class TlsContexts:
    """The TLS context of one client. Raises InvalidOption if a file cannot be read or is not what it should be."""

    def __init__(self, options: SecurityOptions) -> None:
        self._options = options
        self._stamps = self._stamp_files()
        self._context = options.ssl_context or self._load()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection, made again if a file has changed."""
        stamps = self._stamp_files()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = self._load()
            except InvalidOption as error:
                _log.warning("%s; new connections use what was read before", error.message)
        return self._context

    def _stamp_files(self) -> list[Stamp | None]:
        options = self._options
        names = (options.ssl_cafile, options.ssl_certfile, options.ssl_keyfile)
        return [_stamp(name) for name in names if name is not None]

    def _load(self) -> ssl.SSLContext:
        options = self._options
        what = f"ssl_cafile={options.ssl_cafile}"
        try:
            context = ssl.create_default_context(cafile=options.ssl_cafile, cadata=options.ssl_cadata)
            context.check_hostname = options.ssl_check_hostname
            if options.ssl_certfile is not None:
                what = f"ssl_certfile={options.ssl_certfile}, ssl_keyfile={options.ssl_keyfile}"
                # Without a password OpenSSL would ask the terminal for one.
                password = options.ssl_password or ""
                context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, lambda: password)
        except ssl.SSLError as error:
            raise InvalidOption(f"{what}: {_words(error)} (PEM is expected, and the password of its key)") from error
        except OSError as error:
            raise InvalidOption(f"{what}: {(error.strerror or str(error)).lower()}") from error
        except ValueError as error:
            raise InvalidOption(f"{what}: {error}") from error
        return context


def _stamp(name: str) -> Stamp | None:
    try:
        found = os.stat(name)
    except OSError:
        return None  # loading it says what is wrong
    return found.st_mtime_ns, found.st_size, found.st_ino


def handshake_error(address: str, error: OSError) -> KafkaError | None:
    """Return what the error of a handshake, or of the first read behind it, means for a user; None if it is not TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"{address}: {_distrust(error)}")
    if isinstance(error, ssl.SSLError):
        return _alert(address, error)
    return None


def closed_in_handshake(address: str) -> ConnectionLost:
    """Return the error of a peer that ends the connection before TLS is agreed on."""
    return ConnectionLost(
        f"{address} closed the connection during the TLS handshake: if the listener speaks no TLS, "
        "set security_protocol to PLAINTEXT or SASL_PLAINTEXT"
    )


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.rstrip(".")
    if error.verify_code in _WRONG_HOST:
        return (
            f"the broker's certificate is for another host ({said}): connect by a name that is in it, "
            "or set ssl_check_hostname=False"
        )
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        return f"the broker's certificate is not valid now ({said}): renew it, or set this machine's clock"
    if error.verify_code in _NOT_STRICT:
        return (
            f"the broker's certificate, or its authority's, breaks RFC 5280 ({said}), which Python 3.13 checks: "
            "make it again by that standard, or set ssl_context to one without ssl.VERIFY_X509_STRICT"
        )
    return (
        f"the broker's certificate is not trusted ({said}): set ssl_cafile to the certificate of the authority "
        "that signed it"
    )


def _alert(address: str, error: ssl.SSLError) -> KafkaError:
    reason = error.reason or ""
    if any(each in reason for each in _NO_TLS):
        return ConnectionLost(
            f"{address} does not speak TLS: set security_protocol to PLAINTEXT or SASL_PLAINTEXT, "
            "or connect to the port of a TLS listener"
        )
    if any(each in reason for each in _NEEDS_CERTIFICATE):
        return AuthenticationFailed(
            f"{address} ends the TLS handshake ({_words(error)}): it may ask for a client certificate, "
            "set ssl_certfile and ssl_keyfile"
        )
    if any(each in reason for each in _REJECTS_CERTIFICATE):
        return AuthenticationFailed(
            f"{address} rejects this client's certificate ({_words(error)}): set ssl_certfile and ssl_keyfile to one "
            "that the broker trusts"
        )
    return ConnectionLost(f"{address}: TLS failed: {_words(error)}")


def _words(error: ssl.SSLError) -> str:
    return (error.reason or error.strerror or str(error)).replace("_", " ").lower()
