"""TLS: brokers are known by their certificates, and this client by its own where it has one.

Owns the context that connections are made with, and so the files that it comes from: who renews a certificate puts
another into its place, and the next connection is made with what stands there then. Also what goes wrong in TLS's own
words (OpenSSL's), said in ours.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final

import trio

from sarameya.config import Config
from sarameya.config.security import speaks_tls
from sarameya.errors import ConfigError, TlsError
from sarameya.net.transport import Transport
from sarameya.observe import Observer, TlsFilesRefused, TlsFilesRenewed

_FILES = ("tls_ca_file", "tls_cert_file", "tls_key_file")

_Signature = tuple[tuple[int, ...] | None, ...]


async def secured(transport: Transport, config: Config, observer: Observer) -> Transport:
    """`transport`, with TLS over it where the options ask for that. Raises ConfigError for files that cannot be."""
    if not speaks_tls(config) or isinstance(transport, TlsTransport):
        return transport
    contexts = TlsContexts(config, observer)
    await contexts.current()  # what is wrong with them is said before there is anything to give up
    return TlsTransport(transport, contexts)


class TlsTransport:
    """TLS over another transport."""

    def __init__(self, transport: Transport, contexts: TlsContexts) -> None:
        self._transport = transport
        self._contexts = contexts

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """Raises OSError where nobody answers, TlsError where who answers is not to be spoken to."""
        context = await self._contexts.current()
        stream = await self._transport.connect(host, port)
        # Kafka's brokers close without a word of TLS's, as HTTPS servers do.
        tls = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
        try:
            await tls.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if not isinstance(error, trio.BrokenResourceError):
                raise
            if (told := tls_error(f"{host}:{port}", error)) is not None:
                raise told from error
            raise ConnectionResetError(
                "the connection ended in the TLS handshake; has this port a TLS listener?"
            ) from error
        return tls


class TlsContexts:
    """The context of the files as they are."""

    def __init__(self, config: Config, observer: Observer) -> None:
        self._config = config
        self._observer = observer
        self._files = tuple(file for name in _FILES if (file := getattr(config, name)) is not None)
        self._context: ssl.SSLContext | None = None
        self._seen: _Signature = ()
        self._looking = trio.Lock()

    async def current(self) -> ssl.SSLContext:
        """Looks at the files, and reads them where they have changed. What cannot be used then is told to the observer,
        and what was there before stays. Raises ConfigError where there was nothing."""
        async with self._looking:
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
            # If a file has changed since it was looked at, it is read once more.
            self._context, self._seen = context, seen
            return context


def _signature(files: tuple[str, ...]) -> _Signature:
    """What is different once one of them was written, or another one was put into its place."""
    return tuple(_signature_of(file) for file in files)


def _signature_of(file: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def make_context(config: Config) -> ssl.SSLContext:
    """The context of the files that the options name. Blocking. Raises ConfigError, which names the option."""
    try:
        context = ssl.create_default_context(cafile=config.tls_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError("tls_ca_file", config.tls_ca_file, _unusable(error, "certificates")) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # whatever the system's OpenSSL has for its least
    context.check_hostname = config.tls_check_hostname
    if config.tls_cert_file is not None:
        _identify(context, config)
    return context


def _identify(context: ssl.SSLContext, config: Config) -> None:
    password = config.tls_key_password
    was_asked = False

    # A function: without, OpenSSL asks on the terminal for the password of a key that is encrypted.
    def tell() -> str:
        nonlocal was_asked
        was_asked = True
        return "" if password is None else password.reveal()

    assert config.tls_cert_file is not None
    # Looked at before, for OpenSSL does not say which of the two it cannot read.
    for name in ("tls_cert_file", "tls_key_file"):
        if (file := getattr(config, name)) is not None:
            try:
                open(file, "rb").close()
            except OSError as error:
                raise ConfigError(name, file, _unusable(error, "")) from None
    try:
        context.load_cert_chain(config.tls_cert_file, config.tls_key_file, tell)
    except (OSError, ssl.SSLError) as error:
        if was_asked and password is None:
            raise ConfigError("tls_key_password", None, "must be given: the key is encrypted") from None
        if was_asked:
            raise ConfigError("tls_key_password", password, "does not decrypt the key") from None
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            name = "tls_cert_file" if config.tls_key_file is None else "tls_key_file"
            raise ConfigError(name, getattr(config, name), "has a key that is not the certificate's") from None
        raise ConfigError(
            "tls_cert_file",
            config.tls_cert_file,
            _unusable(error, "a certificate, and its key in it or in tls_key_file"),
        ) from None


def _unusable(error: OSError, what: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"must be a PEM file with {what} ({error.reason or error})"
    return f"cannot be read: {error.strerror}"


# -- what goes wrong -----------------------------------------------------------------------------

_UNKNOWN_CA: Final = (2, 18, 19, 20, 21)
"""OpenSSL's verify codes (X509_V_ERR_...): a certificate signed by itself, or by nobody whom we know."""

_VERIFY: Mapping[int, tuple[str, str]] = {
    9: ("the broker's certificate is not valid yet", "is one of the two clocks wrong?"),
    10: (
        "the broker's certificate, or one that has signed it, has expired",
        "renew it, on the broker or in tls_ca_file",
    ),
    **dict.fromkeys(
        _UNKNOWN_CA, ("nobody whom we trust has signed the broker's certificate", "set tls_ca_file to its CA's")
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

_OURS = "set tls_cert_file (and tls_key_file) to a certificate that the broker's truststore knows"
_REASONS: Mapping[str, tuple[str, str]] = {
    "WRONG_VERSION_NUMBER": (
        "it does not speak TLS",
        "give the port of its TLS listener, or set security_protocol to what this one speaks",
    ),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": ("it asks for a client certificate", _OURS),
    "SSLV3_ALERT_BAD_CERTIFICATE": ("it asks for a client certificate, and takes none or not ours", _OURS),
    # Which is all that Kafka's brokers say of one that has expired.
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": (
        "it does not take our certificate",
        f"look whether it has expired, and renew it then, or {_OURS}",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": ("our certificate has expired", "renew the one in tls_cert_file"),
    "SSLV3_ALERT_CERTIFICATE_REVOKED": ("our certificate was revoked", _OURS),
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": ("it does not take our kind of certificate", _OURS),
    "TLSV1_ALERT_UNKNOWN_CA": ("it does not know who has signed our certificate", _OURS),
    "TLSV1_ALERT_ACCESS_DENIED": ("it denies us access", _OURS),
    "TLSV1_ALERT_DECRYPT_ERROR": ("it cannot verify our certificate", _OURS),
    **dict.fromkeys(
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "NO_SHARED_CIPHER"),
        (
            "it does not agree on how to encrypt, or asks for a client certificate",
            f"look at ssl.cipher.suites there; {_OURS}",
        ),
    ),
    **dict.fromkeys(
        ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"),
        ("it speaks other versions of TLS only", "look at ssl.enabled.protocols there; here it is TLS 1.2 and newer"),
    ),
}
"""By OpenSSL's reasons; its ALERTs are what the peer has told."""


def tls_error(address: str, error: BaseException) -> TlsError | None:
    """What a stream's end says of certificates and the like; None where it has just ended."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLError):
        found = found.__cause__
    if isinstance(found, ssl.SSLCertVerificationError):
        problem, remedy = _VERIFY.get(found.verify_code, (f"its certificate is no good: {found.verify_message}", ""))
        return TlsError(address, problem, remedy)
    if found is None or found.reason not in _REASONS:
        return None
    return TlsError(address, *_REASONS[found.reason])
