"""TLS: certificates identify brokers and, if configured, this client.

Owns the SSL context of the connections, and so the certificate files: after a file is replaced, the next connection
uses the new one. Also translates OpenSSL's errors into messages with advice.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final

import trio

from sarameya.config import Config
from sarameya.config.security import requires_tls
from sarameya.errors import ConfigError, TlsError
from sarameya.net.transport import Transport
from sarameya.observe import Observer, TlsFilesRefused, TlsFilesRenewed

_FILES = ("tls_ca_file", "tls_cert_file", "tls_key_file")

_Signature = tuple[tuple[int, ...] | None, ...]


async def secured(transport: Transport, config: Config, observer: Observer) -> Transport:
    """Wrap `transport` in TLS if the options require it. Raises ConfigError for unusable files."""
    if not requires_tls(config) or isinstance(transport, TlsTransport):
        return transport
    contexts = TlsContexts(config, observer)
    await contexts.current()  # raise before the member joins, not when it has partitions
    return TlsTransport(transport, contexts)


class TlsTransport:
    """TLS over another transport."""

    def __init__(self, transport: Transport, contexts: TlsContexts) -> None:
        self._transport = transport
        self._contexts = contexts

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """Connect. Raises OSError if nobody answers, TlsError if the peer cannot be trusted."""
        context = await self._contexts.current()
        stream = await self._transport.connect(host, port)
        # Kafka's brokers close without TLS's closing alert, as HTTPS servers do.
        tls = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
        try:
            await tls.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if not isinstance(error, trio.BrokenResourceError):
                raise
            if (known := tls_error(f"{host}:{port}", error)) is not None:
                raise known from error
            raise ConnectionResetError(
                "the connection ended in the TLS handshake; does this port have a TLS listener?"
            ) from error
        return tls


class TlsContexts:
    """SSL context of the current certificate files."""

    def __init__(self, config: Config, observer: Observer) -> None:
        self._config = config
        self._observer = observer
        self._files = tuple(file for name in _FILES if (file := getattr(config, name)) is not None)
        self._context: ssl.SSLContext | None = None
        self._seen: _Signature = ()
        self._lock = trio.Lock()

    async def current(self) -> ssl.SSLContext:
        """Return the context. Read the files again if they have changed.

        If the new files are unusable, this is reported to the observer, and the old context stays.

        Raises:
            ConfigError: The files are unusable, and there is no old context.
        """
        async with self._lock:
            seen = await trio.to_thread.run_sync(_signature, self._files)
            if self._context is not None and seen == self._seen:
                return self._context
            try:
                context = await trio.to_thread.run_sync(make_context, self._config)
            except ConfigError as error:
                if self._context is None:
                    raise
                if seen != self._seen:
                    self._observer(TlsFilesRefused(str(error)))
                    self._seen = seen
                return self._context
            if self._context is not None:
                self._observer(TlsFilesRenewed(self._files))
            # A file that changed after `_signature` is read again by the next call.
            self._context, self._seen = context, seen
            return context


def _signature(files: tuple[str, ...]) -> _Signature:
    """Return a value that changes when one of the files is written or replaced."""
    return tuple(_signature_of(file) for file in files)


def _signature_of(file: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def make_context(config: Config) -> ssl.SSLContext:
    """Make a context from the configured files. Blocking. Raises ConfigError, which names the option."""
    try:
        context = ssl.create_default_context(cafile=config.tls_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError("tls_ca_file", config.tls_ca_file, _unusable(error, "certificates")) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # whatever the minimum of the system's OpenSSL is
    context.check_hostname = config.tls_check_hostname
    if config.tls_cert_file is not None:
        _load_client_certificate(context, config)
    return context


def _load_client_certificate(context: ssl.SSLContext, config: Config) -> None:
    password = config.tls_key_password
    was_asked = False

    # A function: otherwise OpenSSL asks on the terminal for the password of an encrypted key.
    def reveal_password() -> str:
        nonlocal was_asked
        was_asked = True
        return "" if password is None else password.reveal()

    assert config.tls_cert_file is not None
    # Check both files first: OpenSSL does not report which of them it cannot read.
    for name in ("tls_cert_file", "tls_key_file"):
        if (file := getattr(config, name)) is not None:
            try:
                open(file, "rb").close()
            except OSError as error:
                raise ConfigError(name, file, _unusable(error, "")) from None
    try:
        context.load_cert_chain(config.tls_cert_file, config.tls_key_file, reveal_password)
    except (OSError, ssl.SSLError) as error:
        if was_asked and password is None:
            raise ConfigError("tls_key_password", None, "must be given: the key is encrypted") from None
        if was_asked:
            raise ConfigError("tls_key_password", password, "does not decrypt the key") from None
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            name = "tls_cert_file" if config.tls_key_file is None else "tls_key_file"
            raise ConfigError(name, getattr(config, name), "has a key that does not match the certificate") from None
        raise ConfigError(
            "tls_cert_file",
            config.tls_cert_file,
            _unusable(error, "a certificate, and its key in it or in tls_key_file"),
        ) from None


def _unusable(error: OSError, what: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"must be a PEM file with {what} ({error.reason or error})"
    return f"cannot be read: {error.strerror}"


# -- errors ---------------------------------------------------------------------------------------

_UNKNOWN_CA: Final = (2, 18, 19, 20, 21)
"""OpenSSL's verify codes (X509_V_ERR_...) of certificates that are self-signed, or signed by an unknown CA."""

_VERIFY: Mapping[int, tuple[str, str]] = {
    9: ("the broker's certificate is not valid yet", "check both clocks"),
    10: (
        "the broker's certificate, or one that has signed it, has expired",
        "renew it, on the broker or in tls_ca_file",
    ),
    **dict.fromkeys(
        _UNKNOWN_CA, ("no trusted CA has signed the broker's certificate", "set tls_ca_file to its CA's certificate")
    ),
    62: (
        "the broker's certificate is for another host",
        "connect by a name that is in it (advertised.listeners), or set tls_check_hostname = false",
    ),
    64: (
        "the broker's certificate is not for this IP address",
        "connect by a name that is in it (advertised.listeners), or set tls_check_hostname = false",
    ),
}

_SET_CERT = "set tls_cert_file (and tls_key_file) to a certificate that the broker's truststore knows"
_REASONS: Mapping[str, tuple[str, str]] = {
    "WRONG_VERSION_NUMBER": (
        "the peer does not speak TLS",
        "give the port of its TLS listener, or set security_protocol to the protocol of this one",
    ),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": ("the broker requires a client certificate", _SET_CERT),
    "SSLV3_ALERT_BAD_CERTIFICATE": (
        "the broker requires a client certificate, and got none or refused ours",
        _SET_CERT,
    ),
    # Kafka's brokers report an expired one in this way, too.
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": (
        "the broker refuses our certificate",
        f"renew it if it has expired, or {_SET_CERT}",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": ("our certificate has expired", "renew the one in tls_cert_file"),
    "SSLV3_ALERT_CERTIFICATE_REVOKED": ("our certificate was revoked", _SET_CERT),
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": ("the broker does not support our type of certificate", _SET_CERT),
    "TLSV1_ALERT_UNKNOWN_CA": ("the broker does not know the CA of our certificate", _SET_CERT),
    "TLSV1_ALERT_ACCESS_DENIED": ("the broker denies us access", _SET_CERT),
    "TLSV1_ALERT_DECRYPT_ERROR": ("the broker cannot verify our certificate", _SET_CERT),
    **dict.fromkeys(
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "NO_SHARED_CIPHER"),
        (
            "there is no common cipher, or the broker requires a client certificate",
            f"check the broker's ssl.cipher.suites; {_SET_CERT}",
        ),
    ),
    **dict.fromkeys(
        ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"),
        (
            "the broker supports other versions of TLS only",
            "check its ssl.enabled.protocols; this client supports TLS 1.2 and newer",
        ),
    ),
}
"""Message and advice by OpenSSL's reason; ALERTs come from the peer."""


def tls_error(address: str, error: BaseException) -> TlsError | None:
    """Return the TLS error behind the end of a stream, or None if the stream has just ended."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLError):
        found = found.__cause__
    if isinstance(found, ssl.SSLCertVerificationError):
        problem, remedy = _VERIFY.get(
            found.verify_code, (f"the broker's certificate is invalid: {found.verify_message}", "")
        )
        return TlsError(address, problem, remedy)
    if found is None or found.reason not in _REASONS:
        return None
    return TlsError(address, *_REASONS[found.reason])
