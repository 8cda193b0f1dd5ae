"""Reactions of the membership to Kafka's error codes: each row of the table, and codes without a row."""

from __future__ import annotations

import pytest

from sarameya.error_codes import ErrorCode
from sarameya.protocol.membership.states import Reaction, Request, reaction_to
from tests.expected_reactions import REACTIONS


@pytest.mark.parametrize("request_", Request, ids=lambda request: request.name)
def test_every_code_has_its_rows_reaction_or_is_fatal(request_: Request) -> None:
    expected = {code: REACTIONS.get((request_, code), Reaction.FATAL) for code in ErrorCode} | {
        ErrorCode.NONE: Reaction.PROCEED
    }
    assert {code: reaction_to(request_, code) for code in ErrorCode} == expected


def test_code_of_a_newer_kafka_is_fatal() -> None:
    assert {reaction_to(request, 9999) for request in Request} == {Reaction.FATAL}
