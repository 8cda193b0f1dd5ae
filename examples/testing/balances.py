"""A handler to test: it adds payments to the balances of accounts in a store, and then marks them."""

from __future__ import annotations

from typing import Protocol

from sarameya import Claim, ConsumerGroupHandler, Session


class Store(Protocol):
    """A store of balances."""

    async def add(self, account: str, cents: int) -> None: ...


class Balances(ConsumerGroupHandler):
    """Adds each payment (key: account, value: cents) to its account. Counts and skips messages that are no payments."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.refused = 0

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            try:
                account, cents = (message.key or b"").decode(), int(message.value or b"")
            except ValueError:
                self.refused += 1
            else:
                await self.store.add(account, cents)
            session.mark_message(message)
