"""Errors that are not retried."""

from __future__ import annotations

import pytest

from sarameya_handlers.spark.errors import LandingError, SparkJarsError
from sarameya_handlers.spark.sink.retry import FlushRetry


@pytest.mark.parametrize(("error", "permanent"), [(SparkJarsError("no such method"), True), (ValueError("odd"), False)])
async def test_error_is_permanent_only_if_a_person_must_act(error: Exception, permanent: bool) -> None:
    with pytest.raises(LandingError, match="link 7: ") as raised:
        await FlushRetry().wait("link 7", error)
    assert raised.value.permanent is permanent
