"""A world for chains: partitions' logs, a table, the group's commits, members that share the partitions, and zombies.

An owner reads, tries, settles and commits as a sink does, out of the pure core alone; everything that can come between
is a step of its own, so that a schedule decides it: a write that arrives late or never, an answer or a commit that is
lost, a member that wakes when others have long taken over, a table that forgets what nobody has stated anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import attrs

from sarameya import CommittedOffset
from sarameya_handlers.landing.chain import AttemptState, Chain, Outcome
from sarameya_handlers.landing.chain_start import Begin, Log, begin
from sarameya_handlers.landing.errors import ChainError, ForeignChainError, ForgottenChainError, MovedCommitError
from sarameya_handlers.landing.links import UNKNOWN_BEGIN, ChainKey, CommitNote, Kind, Link, Origin, check_chain
from tests.model.landing_tables import RETENTION, Commit, Table

ORIGIN = Origin(group="billing", topic_id="0" * 31 + "1")
RESTATE_AFTER = RETENTION // 4
_MOST_MEMBERS = 3


class LandedTwiceError(AssertionError):
    """Records are in the table more than once."""


class NotLandedError(AssertionError):
    """Records are behind the end of what has landed, and not in the table."""


class CommittedUnlandedError(AssertionError):
    """The group has committed past records that are not in the table, and nobody has asked for that."""


class ForgottenError(AssertionError):
    """A table has forgotten a chain that somebody looked after."""


@attrs.define
class Records:
    """A partition's log: some of its numbers are records that readers are shown. The others are those of control
    records, of aborted transactions, or of records that compaction has removed."""

    shown: list[int] = attrs.field(factory=list)
    ever: set[int] = attrs.field(factory=set)
    """All that were ever shown: some member may have read them in time."""
    end: int = 0

    def write(self, records: int, *, are_shown: bool) -> None:
        if are_shown:
            self.shown += range(self.end, self.end + records)
            self.ever |= {*range(self.end, self.end + records)}
        self.end += records

    def compact(self, which: int) -> None:
        if self.shown:
            del self.shown[which % len(self.shown)]


@attrs.define(eq=False)
class Claim:
    """A partition, as a member has it that owns it, or thinks that it does."""

    member: Member
    key: ChainKey
    chain: Chain
    position: int
    start: int
    """Where it has begun to read."""
    buffer: list[int] = attrs.field(factory=list)
    told: bool | None = None
    """What the table's answer to the last try said, where one came."""
    _mark: int = attrs.field(default=attrs.Factory(lambda claim: claim.position, takes_self=True))

    @property
    def world(self) -> World:
        return self.member.world

    def read(self, most: int) -> None:
        log = self.world.logs[self.key]
        upto = min(self.position + most, log.end)
        self.buffer += [offset for offset in log.shown if self.position <= offset < upto]
        self.position = max(upto, self.position)

    def propose(self, records: int) -> None:
        """Try to land the first so many of what is buffered, or all."""
        if self.chain.state is not AttemptState.READY or not self.buffer:
            return
        rows = tuple(self.buffer[: max(records, 1)])
        is_all = len(rows) == len(self.buffer)
        self._try(self.world.end_of(self, rows, self.position if is_all else self.buffer[len(rows)]), rows)

    def stay(self) -> None:
        """Restate the head, since nothing has come for a while and the table may forget the end of the chain."""
        head = self.chain.head
        if head is None or self.buffer or self.chain.state is not AttemptState.READY or not self.world.restates:
            return
        if self.world.now - head.tried_at > RESTATE_AFTER:
            self._try(head.to_offset, (), Kind.RESTATED)

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
            behind = self.chain.head.to_offset
            self.buffer = [offset for offset in self.buffer if offset >= behind]
            self.position = max(self.position, behind)

    def marked(self) -> CommittedOffset | None:
        """Return the offset that may be committed. Marks only move forward.

        If nothing is buffered, there is nothing to land between the head and the position.
        """
        if (head := self.chain.head) is None:
            return None
        self._mark = max(self._mark, head.to_offset if self.buffer else self.position)
        return CommittedOffset(self._mark, CommitNote.of(head).to_metadata())

    def _try(self, to_offset: int, rows: tuple[int, ...], kind: Kind = Kind.RECORDS) -> None:
        link = self.chain.propose(
            self.start,
            to_offset,
            attempt=f"{next(self.world.attempts):032x}",
            rows=len(rows),
            kind=kind,
            tried_at=self.world.now,
        )
        self.told = None
        self.world.pending.append(Pending(link, rows, self))


@attrs.define(eq=False)
class Member:
    """A process of the group. One that was taken for dead has its claims still, and commits nothing."""

    world: World
    claims: dict[ChainKey, Claim] = attrs.field(factory=dict)

    def flush(self, records: int) -> None:
        """Try all of its partitions at once."""
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
    """A write that is on its way to the table. `looked_at`: when it saw that it was its turn."""

    link: Link
    rows: tuple[int, ...]
    claim: Claim
    looked_at: int | None = None


def by_reading_back(claim: Claim, found: list[Link]) -> Outcome:
    """Return the outcome of an attempt, according to the table's links."""
    return claim.chain.settle(found).outcome


def by_what_was_told(claim: Claim, found: list[Link]) -> Outcome:
    """The bug of taking a call that did not raise for a landing."""
    if claim.told is None:
        return by_reading_back(claim, found)
    link = next(iter(claim.chain._tried.values()))
    claim.chain.settle([*([claim.chain.head] if claim.chain.head else []), link])
    return Outcome.LANDED


def by_position(claim: Claim, rows: tuple[int, ...], behind: int) -> int:
    """Return the end of a link with these rows: the position."""
    return behind


def by_count(claim: Claim, rows: tuple[int, ...], behind: int) -> int:
    """The bug of counting records, where the log has gaps."""
    return (claim.chain.head.to_offset if claim.chain.head else claim.start) + len(rows)


def by_adopting(claim: Claim, found: list[Link]) -> Outcome:
    """The bug of taking any first link of the chain for one's own group's, and for one that begins where one has."""
    chain = claim.chain
    if chain.head is None and found and found[0].attempt not in chain._tried:
        chain.head, chain._tried, chain.state = found[-1], {}, AttemptState.READY
        return Outcome.LOST
    return chain.settle(found).outcome


def without_begin(
    key: ChainKey, origin: Origin, head: Link | None, committed: CommittedOffset | None, log: Log
) -> Begin:
    """The bug of a start that does not ask whether the group stands before the chain's first link."""
    if head is not None:
        head = attrs.evolve(head, origin=attrs.evolve(head.origin, begin=UNKNOWN_BEGIN))
    return begin(key, origin, head, committed, log)


@attrs.define(eq=False)
class World:
    table: Table = attrs.field(factory=Table)
    partitions: int = 1
    find: Callable[[Claim, list[Link]], Outcome] = by_reading_back
    end_of: Callable[[Claim, tuple[int, ...], int], int] = by_position
    restates: bool = True
    origin: Origin = ORIGIN
    begin: Callable[[ChainKey, Origin, Link | None, CommittedOffset | None, Log], Begin] = begin
    now: int = 0
    logs: dict[ChainKey, Records] = attrs.field(init=False)
    committed: dict[ChainKey, CommittedOffset] = attrs.field(factory=dict)
    members: list[Member] = attrs.field(factory=list)
    """Who is in the group."""
    zombies: list[Member] = attrs.field(factory=list)
    pending: list[Pending] = attrs.field(factory=list)
    attempts: count[int] = attrs.field(factory=lambda: count(1))
    is_rewound: bool = False
    """Whether the table was restored, and the group was not brought to match."""
    was_reset: bool = False
    """Whether somebody has reset the group's offsets."""

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
        """A member is thought dead: it goes on, and does not know it."""
        if self.members:
            self.zombies.append(self.members.pop(which % len(self.members)))

    def crash(self, member: Member) -> None:
        """Remove a member. Its requests are still under way."""
        for group in (self.members, self.zombies):
            if member in group:
                group.remove(member)

    def rebalance(self, turn: int, *, is_eager: bool) -> None:
        """Deal the partitions out. Who keeps one, under a cooperative assignor, goes on with it; who loses one drops
        what it has of it. Raises ChainError."""
        if not self.members:
            self.join()
        for number, key in enumerate(self.logs):
            owner = self.members[(number + turn) % len(self.members)]
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
            # A person does what the error says.
            self.committed[key] = CommittedOffset(head.to_offset)
            found = self.begin(key, self.origin, head, self.committed[key], log)
        start = found.offset or 0
        return Claim(member, key, Chain(key, self.origin, head), start, start)

    def reset(self, key: ChainKey, offset: int) -> None:
        """Before the chain has begun, a person resets the group's offset, whose members Kafka takes for dead, and
        starts the service anew."""
        if self.table.commits.get(key):
            return
        while self.members:
            self.fence(0)
        self.committed[key] = CommittedOffset(min(offset, self.logs[key].end))
        self.was_reset = True
        self.rebalance(0, is_eager=True)

    # -- the table -----------------------------------------------------------------------------------

    def arrive(self, which: int, *, goes_through: bool, is_answered: bool) -> None:
        """A write that is on its way looks whether it is its turn, or lands; or both at once. Whoever sent it may hear
        nothing of it."""
        if not self.pending:
            return
        write = self.pending[which % len(self.pending)]
        if write.looked_at is None:
            if not self.table.is_next(write.link):
                self._answer(write, False, is_answered)
                return
            write.looked_at = self.now
            if not goes_through:
                return
        won = self.table.append(write.link, write.rows, now=self.now, looked_at=write.looked_at)
        self._answer(write, won, is_answered)
        self.check(write.link.key)

    def _answer(self, write: Pending, won: bool, is_answered: bool) -> None:
        self.pending.remove(write)
        if is_answered and write.link.attempt in write.claim.chain._tried:
            write.claim.told = won

    def restore(self, version: int, *, rewinds: bool) -> None:
        """All members are stopped, and the table is put back to an older version; the group is brought to match, too,
        or not."""
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
        """Let a last member land what is left, with nobody in its way, and stay for long after. Raises ChainError."""
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
                claim.stay()
            self._land_all()
            self.table.forget(self.now)
        try:
            self.rebalance(0, is_eager=True)
        except ForgottenChainError as error:
            raise ForgottenError(f"{error}, though its owner has stayed") from error

    def _land_all(self) -> None:
        while self.pending:
            self.arrive(0, goes_through=True, is_answered=True)
        for claim in list(self.claims()):
            claim.settle()

    def check(self, key: ChainKey, *, is_over: bool = False) -> None:
        """Each record that is behind the end of a chain is in the table once, whatever has happened."""
        commits, log = self._landed(key), self.logs[key]
        landed = Counter(offset for commit in commits for offset in commit.rows)
        if twice := sorted(offset for offset, times in landed.items() if times > 1):
            raise LandedTwiceError(f"{key}: {twice}")
        end = log.end if is_over else max((commit.link.to_offset for commit in commits), default=0)
        reset = self.committed.get(key, CommittedOffset(0)) if self.was_reset else CommittedOffset(0)
        first = commits[0].link.from_offset if commits else reset.offset
        if missing := [offset for offset in log.shown if first <= offset < end and offset not in landed]:
            raise NotLandedError(f"{key}: {missing}")
        if is_over and any(offset >= first for offset in log.shown):
            committed = self.committed.get(key)
            assert committed is not None, f"{key}: nothing was committed"
            assert committed.offset == log.end, f"{key}: {committed} of {log.end}"

    def check_commit(self, key: ChainKey, since: int, offset: int) -> None:
        """A commit moves past records of ours only, and past those that have landed only."""
        landed = {one for commit in self._landed(key) for one in commit.rows}
        if missing := [one for one in self.logs[key].shown if since <= one < offset and one not in landed]:
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
            assert self.logs[key].ever.issuperset(commit.rows), f"{link}: nobody has written {commit.rows}"
