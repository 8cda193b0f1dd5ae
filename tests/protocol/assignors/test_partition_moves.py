"""Moves between members 0, 1 and 2. Members 0 and 1 can take partitions of pool 0, members 1 and 2 those of pool 1."""

from sarameya.protocol.assignors.partition_moves import MovablePartitions, bits, members_of, move_partitions, union

TAKERS = [bits({0, 1}), bits({1, 2})]
POOL_OF = [0, 0, 0, 1, 1, 1]
NO_OWNERS = [-1] * 6


def holding(*members, anchors=NO_OWNERS):
    """Return members 0, 1 and 2 with these partitions."""
    movable = MovablePartitions(3, POOL_OF, anchors)
    for member, partitions in enumerate(members):
        for partition in partitions:
            movable.add(member, partition)
    return movable


def test_partition_moves_directly_to_a_member_that_may_take_it():
    movable = holding([], [0, 1], [])
    move_partitions(movable, TAKERS, {1: 1}, {0: 1})
    assert (movable.loads, movable.owners(NO_OWNERS)[:2]) == ([1, 1, 0], [1, 0])


def test_indirect_move_is_used_if_no_direct_one_exists():
    movable = holding([], [0], [3, 4, 5])
    move_partitions(movable, TAKERS, {2: 2}, {0: 1, 1: 0})
    assert movable.loads == [1, 1, 2]
    assert movable.owners(NO_OWNERS) == [0, -1, -1, 2, 2, 1]


def test_moves_are_limited_by_excess_room_and_paths():
    movable = holding([0, 1, 2], [], [])
    move_partitions(movable, TAKERS, {0: 3}, {1: 2, 2: 2})
    assert movable.loads == [1, 2, 0], "nothing of pool 0 can come to member 2, as member 1 has nothing of pool 1"


def test_first_choice_that_blocks_another_is_undone():
    # Members 0 and 2 can both move a partition to member 1, in any order: it has room for two.
    movable = holding([0, 1], [], [3, 4])
    move_partitions(movable, TAKERS, {0: 1, 2: 1}, {1: 2})
    assert movable.loads == [1, 2, 1]


def test_member_with_the_most_partitions_is_relieved_first():
    movable = holding([0], [], [3, 4])
    move_partitions(movable, TAKERS, {0: 1, 2: 1}, {1: 1})
    assert movable.loads == [1, 1, 1]


def test_anchored_partition_moves_last_and_a_kept_one_never():
    movable = holding([], [0, 1, 2], [], anchors=[1, -1, 1, -1, -1, -1])
    move_partitions(movable, TAKERS, {1: 1}, {0: 1})
    assert movable.owners(NO_OWNERS)[:3] == [1, 0, 1]

    keeping = MovablePartitions(3, POOL_OF, NO_OWNERS)
    keeping.keep(1)
    move_partitions(keeping, TAKERS, {1: 1}, {0: 1})
    assert keeping.loads == [0, 1, 0]
    keeping.release(1, 0)
    move_partitions(keeping, TAKERS, {1: 1}, {0: 1})
    assert keeping.loads == [1, 0, 0]


def test_reached_members_are_those_a_partition_can_move_to():
    movable = holding([0], [3], [4])
    assert movable.reached([0], TAKERS) == {0, 1, 2}
    assert movable.reached([2], TAKERS) == {1, 2}
    assert movable.reached([], TAKERS) == set()


def test_members_as_bits_are_read_back_ascending():
    assert list(members_of(bits([70, 3, 0]))) == [0, 3, 70]
    assert list(members_of(0)) == []
    assert list(members_of(union([bits([5]), 0, bits([5, 1])]))) == [1, 5]
