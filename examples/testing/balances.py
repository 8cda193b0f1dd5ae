"""A handler that is worth testing: balances of accounts, written to a store before payments are marked."""

from __future__ import annotations

from typing import Protocol

from sarameya import Claim, ConsumerGroupHandler, Session


class Store(Protocol):
    """Where balances are kept."""

    async def add(self, account: str, cents: int) -> None: ...


class Balances(ConsumerGroupHandler):
    """Adds each payment (key: the account, value: cents) to its account. What is no payment is counted and left out."""

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
