"""SASL messages, against RFC 7677's example and against brokers that send nonsense."""

from __future__ import annotations

import math
import random
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest
from kafka.protocol.sasl import SaslHandshakeResponse as Handshake

from sarameya.embedded.network.framing import ReceivedRequest
from sarameya.embedded.sasl import SaslConfig, SaslServerAuthenticator
from sarameya.error_codes import ErrorCode
from sarameya.errors import AuthenticationError, ConfigError, ConnectionLostError, ProtocolError
from sarameya.protocol.sasl.exchange import MAX_MESSAGES, Exchange
from sarameya.protocol.sasl.mechanisms import Mechanism, RefusedError, oauthbearer, plain, scram
from sarameya.protocol.versions import Api
from sarameya.secret import Secret
from sarameya.token import Token

PENCIL = Secret("pencil")
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def user() -> Mechanism:
    """Return RFC 7677's client, with the nonce of its example."""
    made: Any = scram("SCRAM-SHA-256", "user", PENCIL)
    made._mechanism._scram_client.nonce = b"rOprNGfwEbeRWgbNEkqO"
    mechanism: Mechanism = made
    return mechanism


def test_scram_follows_the_example_of_rfc_7677() -> None:
    mechanism = user()
    assert mechanism.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert mechanism.answer(SERVER_FIRST) == CLIENT_FINAL
    assert mechanism.answer(SERVER_FINAL) is None


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"e=unknown-user", "the broker reports: unknown-user"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "requires 4095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1000001"), "requires 1000001 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=" + b"9" * 400), "requires 0 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=-1"), "requires 0 iterations"),
        (SERVER_FIRST.replace(b"r=rOpr", b"r=other"), "malformed"),
        (SERVER_FIRST.replace(b",i=4096", b""), "malformed"),
    ],
)
def test_invalid_scram_message_is_refused(message: bytes, problem: str) -> None:
    mechanism = user()
    mechanism.first()
    with pytest.raises(RefusedError, match=problem):
        mechanism.answer(message)


@pytest.mark.parametrize("message", [b"v=AAAA", b"", b"e=other-error", SERVER_FIRST])
def test_broker_without_proof_of_the_password_is_refused(message: bytes) -> None:
    mechanism = user()
    mechanism.first()
    mechanism.answer(SERVER_FIRST)
    with pytest.raises(RefusedError):
        mechanism.answer(message)


def test_slow_scram_response_is_predicted() -> None:
    assert not user().is_slow(SERVER_FIRST)
    assert user().is_slow(SERVER_FIRST.replace(b"i=4096", b"i=500000"))
    assert not plain("user", PENCIL).is_slow(b"i=500000")


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_broker_message_is_accepted_or_refused(messages: list[bytes]) -> None:
    for mechanism in (user(), plain("user", PENCIL), oauthbearer(Token("t"))):
        mechanism.first()
        try:
            for message in messages:
                if mechanism.answer(message) is None:
                    break
        except RefusedError:
            pass


def test_token_is_sent_with_extensions_and_never_shown() -> None:
    token = Token("abc", {"logicalCluster": "lkc-1", "identityPoolId": "p"})
    assert oauthbearer(token).first() == (b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01identityPoolId=p\x01\x01")
    assert repr(token) == "Token(value=***, extensions={'logicalCluster': ***, 'identityPoolId': ***})"


def test_token_from_a_file_is_stripped() -> None:
    assert Token(" abc\r\n") == Token(Secret("abc\n")) == Token("abc")


@pytest.mark.parametrize("text", ["", "\n", "a b", "a\nb", "a\x01b", "\u00e9", "\udcff"])
def test_token_that_cannot_be_sent_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must (be|consist of) ") as raised:
        Token(text)
    assert not text.strip() or text not in str(raised.value)


@pytest.mark.parametrize(
    "extensions", [None, ["a"], {"a": None}, {"a": "\udcff"}, {"a": "b\x01"}, {"a=b": "c"}, {"auth": "x"}, {1: "x"}]
)
def test_extensions_that_cannot_be_sent_are_refused(extensions: Any) -> None:
    with pytest.raises(ValueError, match=r"token's extension"):
        Token("abc", extensions)


def test_unprintable_sasl_input_is_refused_without_being_shown() -> None:
    exchange = Exchange("PLAIN", "user", "a:1", plain("u\udcff", PENCIL))
    with pytest.raises(AuthenticationError, match="PLAIN as 'user': the credentials cannot be encoded") as seen:
        exchange.receive_handshake(Handshake(error_code=0, mechanisms=["PLAIN"]))
    assert "pencil" not in "".join(traceback.format_exception(seen.value))


def test_exchange_repr_shows_no_secret() -> None:
    exchange = Exchange("PLAIN", "user", "a:1", plain("user", PENCIL))
    exchange.receive_handshake(Handshake(error_code=0, mechanisms=["PLAIN"]))
    assert exchange.next_message == b"user\0user\0pencil"
    assert repr(exchange) == "Exchange(name='PLAIN', user='user', address='a:1', lifetime=inf)"


class TestExchange:
    def test_lifetime_comes_from_the_broker(self) -> None:
        exchange = Exchange("PLAIN", "user", "a:1", plain("user", PENCIL))
        exchange.receive_handshake(Handshake(error_code=0, mechanisms=["PLAIN"]))
        assert exchange.next_message == b"user\0user\0pencil"
        exchange.receive(authenticate_response(lifetime=5000))
        assert (exchange.next_message, exchange.lifetime) == (None, 5.0)

    def test_lifetime_is_infinite_unless_the_broker_sets_it(self) -> None:
        exchange = Exchange("PLAIN", "user", "a:1", plain("user", PENCIL))
        exchange.receive_handshake(Handshake(error_code=0, mechanisms=["PLAIN"]))
        exchange.receive(authenticate_response())
        assert exchange.lifetime == math.inf

    def test_further_challenge_after_plain_is_refused(self) -> None:
        exchange = Exchange("PLAIN", "user", "a:1", plain("user", PENCIL))
        exchange.receive_handshake(Handshake(error_code=0, mechanisms=["PLAIN"]))
        with pytest.raises(AuthenticationError, match="PLAIN as 'user': the broker's last response does not confirm"):
            exchange.receive(authenticate_response(b"more?"))

    def test_error_without_a_message_is_named_by_its_code(self) -> None:
        exchange = Exchange("OAUTHBEARER", "", "a:1", oauthbearer(Token("t")))
        exchange.receive_handshake(Handshake(error_code=0, mechanisms=[]))
        with pytest.raises(AuthenticationError, match=r"OAUTHBEARER was refused: .*SASL_AUTHENTICATION_FAILED"):
            exchange.receive(authenticate_response(error=ErrorCode.SASL_AUTHENTICATION_FAILED))

    def test_listener_without_authentication_is_refused(self) -> None:
        exchange = Exchange("PLAIN", "user", "a:1", plain("user", PENCIL))
        illegal = Handshake(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        with pytest.raises(AuthenticationError, match="its listener does not authenticate clients"):
            exchange.receive_handshake(illegal)
        with pytest.raises(ConnectionLostError, match="does not renew"):
            exchange.receive_handshake(illegal, is_renewal=True)

    def test_exchange_fails_after_too_many_messages(self) -> None:
        exchange = Exchange("OAUTHBEARER", "", "a:1", oauthbearer(Token("t")))
        exchange.receive_handshake(Handshake(error_code=0, mechanisms=[]))
        for _ in range(MAX_MESSAGES - 1):
            exchange.receive(authenticate_response(b"and?"))
        with pytest.raises(AuthenticationError, match="did not finish after 8 messages"):
            exchange.receive(authenticate_response(b"and?"))


def authenticate_response(message: bytes = b"", *, error: int = 0, lifetime: int = 0) -> Any:
    return SaslAuthenticateResponse(
        error_code=error, error_message=None, auth_bytes=message, session_lifetime_ms=lifetime
    )


class TestSaslServerAuthenticator:
    """The embedded broker's half."""

    @given(
        st.lists(st.binary(max_size=60), min_size=1, max_size=3),
        st.sampled_from(("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")),
    )
    def test_any_client_message_gets_a_response(self, messages: list[bytes], mechanism: str) -> None:
        authenticator = SaslServerAuthenticator(SaslConfig(users={"a": "b"}, tokens={"t": "a"}), random.Random(0))
        authenticator.handle(handshake(mechanism), 0.0)
        for message in messages:
            answer = authenticator.handle(authenticate(message), 0.0)
            if answer.error_code:
                assert authenticator.is_closed
                break
            assert answer.auth_bytes is not None

    def test_unauthenticated_client_may_only_request_versions(self) -> None:
        authenticator = SaslServerAuthenticator(SaslConfig(), random.Random(0))
        assert authenticator.handle(other_request(Api.API_VERSIONS), 0.0) is None
        for api in (Api.METADATA, Api.SASL_AUTHENTICATE):
            with pytest.raises(ProtocolError, match=f"{api.name} while UNAUTHENTICATED"):
                authenticator.handle(other_request(api), 0.0)

    def test_other_requests_are_refused_during_the_exchange(self) -> None:
        authenticator = SaslServerAuthenticator(SaslConfig(), random.Random(0))
        authenticator.handle(handshake("PLAIN"), 0.0)
        for api in (Api.METADATA, Api.API_VERSIONS, Api.SASL_HANDSHAKE):
            with pytest.raises(ProtocolError, match="while AUTHENTICATING"):
                authenticator.handle(other_request(api), 0.0)

    def test_authentication_expires_after_its_lifetime(self) -> None:
        authenticator = SaslServerAuthenticator(SaslConfig(users={"a": "b"}, lifetime=10.0), random.Random(0))
        authenticator.handle(handshake("PLAIN"), 0.0)
        assert authenticator.handle(authenticate(b"\0a\0b"), 0.0).session_lifetime_ms == 10_000
        assert authenticator.handle(other_request(Api.METADATA), 9.9) is None
        with pytest.raises(ProtocolError, match="METADATA while AUTHENTICATED"):
            authenticator.handle(other_request(Api.METADATA), 10.0)
        assert authenticator.handle(handshake("PLAIN"), 11.0).error_code == 0

    def test_identity_is_renewed_at_most_once_a_second(self) -> None:
        authenticator = SaslServerAuthenticator(SaslConfig(users={"a": "b"}, lifetime=0.9), random.Random(0))
        authenticator.handle(handshake("PLAIN"), 0.0)
        authenticator.handle(authenticate(b"\0a\0b"), 0.0)
        for now in (0.1, 1.1):
            assert authenticator.handle(handshake("PLAIN"), now).error_code == 0
            assert authenticator.handle(authenticate(b"\0a\0b"), now).error_code == 0
            assert authenticator.handle(handshake("PLAIN"), now + 0.8).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert authenticator.handle(other_request(Api.METADATA), now + 0.85) is None
        with pytest.raises(ProtocolError, match="SASL_HANDSHAKE while AUTHENTICATED"):
            authenticator.handle(handshake("PLAIN"), 2.05)

    def test_authentication_without_a_lifetime_is_not_renewed(self) -> None:
        authenticator = SaslServerAuthenticator(SaslConfig(users={"a": "b"}), random.Random(0))
        authenticator.handle(handshake("PLAIN"), 0.0)
        authenticator.handle(authenticate(b"\0a\0b"), 0.0)
        assert authenticator.handle(handshake("PLAIN"), 5.0).error_code == ErrorCode.ILLEGAL_SASL_STATE

    def test_unknown_mechanism_is_a_config_error(self) -> None:
        with pytest.raises(ConfigError, match=r"mechanisms = .*: .'GSSAPI'. are not supported"):
            SaslConfig(mechanisms=("PLAIN", "GSSAPI"))


def handshake(mechanism: str) -> ReceivedRequest:
    return ReceivedRequest(Api.SASL_HANDSHAKE, 1, 1, "c", SaslHandshakeRequest[1](mechanism=mechanism))


def authenticate(message: bytes) -> ReceivedRequest:
    return ReceivedRequest(Api.SASL_AUTHENTICATE, 2, 1, "c", SaslAuthenticateRequest[2](auth_bytes=message))


def other_request(api: Api) -> ReceivedRequest:
    return ReceivedRequest(api, 1, 1, "c", None)
