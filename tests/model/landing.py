"""The landing model: partitions' logs, a table with its chains, the group's commits, its members, and zombies.

An owner reads, proposes, settles and commits as a sink does, with the pure core alone. Everything that may happen
between is a step of its own, so that a schedule decides it: a write arrives late or never; a response or a commit is
lost; a member wakes up long after others own its partitions; a table forgets a head that no owner has restated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import attrs

from sarameya import CommittedOffset
from sarameya_handlers.landing.chain import AttemptState, Chain, Outcome
from sarameya_handlers.landing.chain_start import ChainStart, Log, choose_chain_start
from sarameya_handlers.landing.errors import ChainError, ForeignChainError, ForgottenChainError, MovedCommitError
from sarameya_handlers.landing.links import UNKNOWN_BEGIN, ChainKey, CommitNote, Kind, Link, Origin, check_chain
from tests.model.landing_tables import RETENTION, Commit, Table

ORIGIN = Origin(group="billing", topic_id="0" * 31 + "1")
RESTATE_AFTER = RETENTION // 4
_MOST_MEMBERS = 3


class LandedTwiceError(AssertionError):
    """Records are in the table more than once."""


class NotLandedError(AssertionError):
    """Records before the end of a chain are not in the table."""


class CommittedUnlandedError(AssertionError):
    """The group has committed past records that are not in the table, without a reset."""


class ForgottenError(AssertionError):
    """A table has forgotten a chain although its owner was there to restate it."""


@attrs.define
class Records:
    """A partition's log. Only some of its offsets are visible records.

    The others belong to control records, to aborted transactions, or to records that compaction has removed.
    """

    visible: list[int] = attrs.field(factory=list)
    ever_visible: set[int] = attrs.field(factory=set)
    """All offsets that were ever visible: a member may have read them before compaction."""
    end: int = 0

    def write(self, records: int, *, are_visible: bool) -> None:
        if are_visible:
            self.visible += range(self.end, self.end + records)
            self.ever_visible |= {*range(self.end, self.end + records)}
        self.end += records

    def compact(self, which: int) -> None:
        if self.visible:
            del self.visible[which % len(self.visible)]


@attrs.define(eq=False)
class Claim:
    """A partition as its owner has it, or a zombie that was its owner."""

    member: Member
    key: ChainKey
    chain: Chain
    position: int
    start: int
    """The offset of the first read."""
    buffer: list[int] = attrs.field(factory=list)
    response: bool | None = None
    """Success or failure of the last attempt, as the table's response reported it; None without a response."""
    _mark: int = attrs.field(default=attrs.Factory(lambda claim: claim.position, takes_self=True))

    @property
    def world(self) -> World:
        return self.member.world

    def read(self, most: int) -> None:
        log = self.world.logs[self.key]
        upto = min(self.position + most, log.end)
        self.buffer += [offset for offset in log.visible if self.position <= offset < upto]
        self.position = max(upto, self.position)

    def propose(self, records: int) -> None:
        """Attempt to append a link with the first `records` of the buffer, or all."""
        if self.chain.state is not AttemptState.READY or not self.buffer:
            return
        rows = tuple(self.buffer[: max(records, 1)])
        is_all = len(rows) == len(self.buffer)
        self._attempt(self.world.end_of(self, rows, self.position if is_all else self.buffer[len(rows)]), rows)

    def restate(self) -> None:
        """Restate an idle chain's head before the table may forget it."""
        head = self.chain.head
        if head is None or self.buffer or self.chain.state is not AttemptState.READY or not self.world.restates:
            return
        if self.world.now - head.tried_at > RESTATE_AFTER:
            self._attempt(head.to_offset, (), Kind.RESTATED)

    def settle(self) -> None:
        """Settle the last attempt. End the member if the table no longer shows the outcome."""
        if self.chain.state is not AttemptState.TRYING:
            return
        since = self.chain.head.number if self.chain.head else 1
        try:
            settled = self.world.find(self, self.world.table.links(self.key, since))
        except MovedCommitError:
            if not self.world.was_reset:
                raise
            self.world.crash(self.member)
            return
        except ForeignChainError:
            raise
        except ChainError:
            if not self.world.table.has_forgotten(self.key, since):
                raise
            self.world.crash(self.member)
            return
        if settled is not Outcome.ABSENT:
            assert self.chain.head is not None
            end = self.chain.head.to_offset
            self.buffer = [offset for offset in self.buffer if offset >= end]
            self.position = max(self.position, end)

    def marked(self) -> CommittedOffset | None:
        """Return the offset that may be committed. Marks only move forward.

        If nothing is buffered, there is nothing to land between the head and the position.
        """
        if (head := self.chain.head) is None:
            return None
        self._mark = max(self._mark, head.to_offset if self.buffer else self.position)
        return CommittedOffset(self._mark, CommitNote.of(head).to_metadata())

    def _attempt(self, to_offset: int, rows: tuple[int, ...], kind: Kind = Kind.RECORDS) -> None:
        link = self.chain.propose(
            self.start,
            to_offset,
            attempt=f"{next(self.world.attempts):032x}",
            rows=len(rows),
            kind=kind,
            tried_at=self.world.now,
        )
        self.response = None
        self.world.pending.append(Pending(link, rows, self))


@attrs.define(eq=False)
class Member:
    """A process of the group. A fenced one (a zombie) still has its claims, and can commit nothing."""

    world: World
    claims: dict[ChainKey, Claim] = attrs.field(factory=dict)

    def flush(self, records: int) -> None:
        """Attempt a link for each of its partitions."""
        for claim in self.claims.values():
            claim.propose(records)

    def commit(self) -> None:
        if self not in self.world.members:
            return  # fenced by its generation
        for key, claim in self.claims.items():
            before, marked = self.world.committed.get(key), claim.marked()
            if marked is not None:
                assert before is None or marked.offset >= before.offset, f"{key}: committed backwards"
                self.world.check_commit(key, claim.start if before is None else before.offset, marked.offset)
                self.world.committed[key] = marked


@attrs.define
class Pending:
    """A write on its way to the table. `checked_at` is the time when it saw that its link is the next; None before."""

    link: Link
    rows: tuple[int, ...]
    claim: Claim
    checked_at: int | None = None


def by_reading_back(claim: Claim, found: list[Link]) -> Outcome:
    """Return the outcome of an attempt, according to the table's links."""
    return claim.chain.settle(found).outcome


def by_response(claim: Claim, found: list[Link]) -> Outcome:
    """Show the bug of a sink that trusts the response to an attempt."""
    if claim.response is None:
        return by_reading_back(claim, found)
    link = next(iter(claim.chain._tried.values()))
    claim.chain.settle([*([claim.chain.head] if claim.chain.head else []), link])
    return Outcome.LANDED


def by_position(claim: Claim, rows: tuple[int, ...], end: int) -> int:
    """Return the end of a link with these rows: the offset of the next record in the buffer, or the position."""
    return end


def by_count(claim: Claim, rows: tuple[int, ...], end: int) -> int:
    """Show the bug of a sink that counts records although the log has gaps."""
    return (claim.chain.head.to_offset if claim.chain.head else claim.start) + len(rows)


def by_adopting(claim: Claim, found: list[Link]) -> Outcome:
    """Show the bug of a sink that adopts a first link without a comparison of its group and its start."""
    chain = claim.chain
    if chain.head is None and found and found[0].attempt not in chain._tried:
        chain.head, chain._tried, chain.state = found[-1], {}, AttemptState.READY
        return Outcome.LOST
    return chain.settle(found).outcome


def without_begin(
    key: ChainKey, origin: Origin, head: Link | None, committed: CommittedOffset | None, log: Log
) -> ChainStart:
    """Show the bug of a start that accepts a group whose committed offset is before the chain's first link."""
    if head is not None:
        head = attrs.evolve(head, origin=attrs.evolve(head.origin, begin=UNKNOWN_BEGIN))
    return choose_chain_start(key, origin, head, committed, log)


@attrs.define(eq=False)
class World:
    """A table, the logs of its partitions, and a group. `find`, `end_of` and `begin` may be replaced by a bug."""

    table: Table = attrs.field(factory=Table)
    partitions: int = 1
    find: Callable[[Claim, list[Link]], Outcome] = by_reading_back
    end_of: Callable[[Claim, tuple[int, ...], int], int] = by_position
    restates: bool = True
    origin: Origin = ORIGIN
    begin: Callable[[ChainKey, Origin, Link | None, CommittedOffset | None, Log], ChainStart] = choose_chain_start
    now: int = 0
    logs: dict[ChainKey, Records] = attrs.field(init=False)
    committed: dict[ChainKey, CommittedOffset] = attrs.field(factory=dict)
    members: list[Member] = attrs.field(factory=list)
    """The members of the group."""
    zombies: list[Member] = attrs.field(factory=list)
    pending: list[Pending] = attrs.field(factory=list)
    attempts: count[int] = attrs.field(factory=lambda: count(1))
    is_rewound: bool = False
    """True if the table was restored, and the group's offsets were not rewound to match."""
    was_reset: bool = False
    """True if the group's offsets were reset."""

    def __attrs_post_init__(self) -> None:
        self.logs = {ChainKey("sink", "orders", number): Records() for number in range(self.partitions)}

    def claims(self) -> Iterator[Claim]:
        for member in (*self.zombies, *self.members):
            yield from member.claims.values()

    # -- the group -----------------------------------------------------------------------------------

    def join(self) -> None:
        if len(self.members) < _MOST_MEMBERS:
            self.members.append(Member(self))

    def fence(self, which: int) -> None:
        """Remove a member from the group without its knowledge; it continues as a zombie."""
        if self.members:
            self.zombies.append(self.members.pop(which % len(self.members)))

    def crash(self, member: Member) -> None:
        """End a member. Its writes are still on their way."""
        for group in (self.members, self.zombies):
            if member in group:
                group.remove(member)

    def rebalance(self, first: int, *, is_eager: bool) -> None:
        """Assign the partitions, starting with member `first`.

        Under a cooperative assignor a claim that stays with its member continues. Other members drop their claims of
        the partition. Raises ChainError.
        """
        if not self.members:
            self.join()
        for number, key in enumerate(self.logs):
            owner = self.members[(number + first) % len(self.members)]
            if is_eager or key not in owner.claims:
                for member in self.members:
                    member.claims.pop(key, None)
                owner.claims[key] = self._claim(owner, key)

    def _claim(self, member: Member, key: ChainKey) -> Claim:
        try:
            head = self.table.head(key)
        except ForgottenChainError:
            idle = self.now - self.table.commits[key][-1].at
            if idle <= RETENTION:
                raise ForgottenError(f"{key} was forgotten after {idle}") from None
            raise
        log = Log(start=0, end=self.logs[key].end)
        try:
            found = self.begin(key, self.origin, head, self.committed.get(key), log)
        except MovedCommitError:
            if not self.was_reset:
                raise
            assert head is not None
            # An operator follows the advice of the error.
            self.committed[key] = CommittedOffset(head.to_offset)
            found = self.begin(key, self.origin, head, self.committed[key], log)
        start = found.offset or 0
        return Claim(member, key, Chain(key, self.origin, head), start, start)

    def reset(self, key: ChainKey, offset: int) -> None:
        """Reset the group's offset before the chain has a link: fence all members, and start a new one."""
        if self.table.commits.get(key):
            return
        while self.members:
            self.fence(0)
        self.committed[key] = CommittedOffset(min(offset, self.logs[key].end))
        self.was_reset = True
        self.rebalance(0, is_eager=True)

    # -- the table -----------------------------------------------------------------------------------

    def arrive(self, which: int, *, goes_through: bool, is_answered: bool) -> None:
        """Let a write check that its link is the next, append it, or both.

        Args:
            which: chooses a write.
            goes_through: append directly after the check.
            is_answered: the owner receives the response.
        """
        if not self.pending:
            return
        write = self.pending[which % len(self.pending)]
        if write.checked_at is None:
            if not self.table.is_next(write.link):
                self._answer(write, False, is_answered)
                return
            write.checked_at = self.now
            if not goes_through:
                return
        won = self.table.append(write.link, write.rows, now=self.now, checked_at=write.checked_at)
        self._answer(write, won, is_answered)
        self.check(write.link.key)

    def _answer(self, write: Pending, won: bool, is_answered: bool) -> None:
        self.pending.remove(write)
        if is_answered and write.link.attempt in write.claim.chain._tried:
            write.claim.response = won

    def restore(self, version: int, *, rewinds: bool) -> None:
        """Stop all members, and restore the table to an older version. `rewinds`: rewind the group's offsets too."""
        self.members, self.zombies, self.pending = [], [], []
        self.table.restore(version)
        self.is_rewound = not rewinds
        for key in self.logs if rewinds else ():
            commits = self.table.commits.get(key)
            self.committed[key] = CommittedOffset(0)
            if commits:
                head = commits[-1].link
                self.committed[key] = CommittedOffset(head.to_offset, CommitNote.of(head).to_metadata())

    # -- the end -------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Let a last member land the rest undisturbed, and stay idle for a long time. Raises ChainError."""
        self.pending.clear()
        while self.members:
            self.fence(0)
        self.rebalance(0, is_eager=True)
        (member,) = self.members
        for claim in member.claims.values():
            for _ in range(2):
                claim.read(claim.world.logs[claim.key].end)
                claim.propose(len(claim.buffer))
                self._land_all()
        member.commit()
        for key in self.logs:
            self.check(key, is_over=True)
        for _ in range(2 * RETENTION // RESTATE_AFTER):
            self.now += RESTATE_AFTER + 1
            for claim in member.claims.values():
                claim.restate()
            self._land_all()
            self.table.forget(self.now)
        try:
            self.rebalance(0, is_eager=True)
        except ForgottenChainError as error:
            raise ForgottenError(f"{error}, though its owner has restated it") from error

    def _land_all(self) -> None:
        while self.pending:
            self.arrive(0, goes_through=True, is_answered=True)
        for claim in list(self.claims()):
            claim.settle()

    def check(self, key: ChainKey, *, is_over: bool = False) -> None:
        """Check that each visible record before the end of a chain is in the table exactly once."""
        commits, log = self._landed(key), self.logs[key]
        landed = Counter(offset for commit in commits for offset in commit.rows)
        if twice := sorted(offset for offset, times in landed.items() if times > 1):
            raise LandedTwiceError(f"{key}: {twice}")
        end = log.end if is_over else max((commit.link.to_offset for commit in commits), default=0)
        reset = self.committed.get(key, CommittedOffset(0)) if self.was_reset else CommittedOffset(0)
        first = commits[0].link.from_offset if commits else reset.offset
        if missing := [offset for offset in log.visible if first <= offset < end and offset not in landed]:
            raise NotLandedError(f"{key}: {missing}")
        if is_over and any(offset >= first for offset in log.visible):
            committed = self.committed.get(key)
            assert committed is not None, f"{key}: nothing was committed"
            assert committed.offset == log.end, f"{key}: {committed} of {log.end}"

    def check_commit(self, key: ChainKey, since: int, offset: int) -> None:
        """Check that a commit passes only records that this group has landed."""
        landed = {one for commit in self._landed(key) for one in commit.rows}
        if missing := [one for one in self.logs[key].visible if since <= one < offset and one not in landed]:
            raise CommittedUnlandedError(f"{key}: committed {offset}, without {missing}")

    def _landed(self, key: ChainKey) -> list[Commit]:
        """Return the commits of this group from its own topic."""
        return [one for one in self.table.commits.get(key, []) if not one.link.origin.is_other(self.origin)]

    def check_links(self, key: ChainKey) -> None:
        """Check that the links match the rows."""
        check_chain(commit.link for commit in self.table.commits.get(key, []))
        for commit in self.table.commits.get(key, []):
            link = commit.link
            assert all(link.from_offset <= offset < link.to_offset for offset in commit.rows), f"{link}: {commit.rows}"
            assert self.logs[key].ever_visible.issuperset(commit.rows), f"{link}: {commit.rows} are no records"
