"""Pools and members by number: pool 0 can be taken by members 0 and 1, pool 1 by 1 and 2."""

from sarameya.protocol.assignors.partition_moves import MovablePartitions, bits, members_of, move_partitions, union

TAKERS = [bits({0, 1}), bits({1, 2})]
POOL_OF = [0, 0, 0, 1, 1, 1]
NOBODY = [-1] * 6


def holding(*members, anchors=NOBODY):
    """Member 0, 1, 2 with these partitions in hand."""
    hands = MovablePartitions(3, POOL_OF, anchors)
    for member, partitions in enumerate(members):
        for partition in partitions:
            hands.add(member, partition)
    return hands


def test_a_partition_goes_straight_to_a_member_that_may_take_it():
    hands = holding([], [0, 1], [])
    move_partitions(hands, TAKERS, {1: 1}, {0: 1})
    assert (hands.loads, hands.owners(NOBODY)[:2]) == ([1, 1, 0], [1, 0])


def test_indirect_move_is_used_where_no_direct_one_exists():
    hands = holding([], [0], [3, 4, 5])
    move_partitions(hands, TAKERS, {2: 2}, {0: 1, 1: 0})
    assert hands.loads == [1, 1, 2]
    assert hands.owners(NOBODY) == [0, -1, -1, 2, 2, 1]


def test_as_many_are_handed_on_as_there_is_excess_room_and_a_way():
    hands = holding([0, 1, 2], [], [])
    move_partitions(hands, TAKERS, {0: 3}, {1: 2, 2: 2})
    assert hands.loads == [1, 2, 0], "nothing of pool 0 can come to member 2, as member 1 has nothing of pool 1"


def test_a_first_choice_that_blocks_another_is_taken_back():
    # Whoever takes 1's place at member 1 first, both 0 and 2 can be relieved: there is room for two.
    hands = holding([0, 1], [], [3, 4])
    move_partitions(hands, TAKERS, {0: 1, 2: 1}, {1: 2})
    assert hands.loads == [1, 2, 1]


def test_the_fullest_is_relieved_first():
    hands = holding([0], [], [3, 4])
    move_partitions(hands, TAKERS, {0: 1, 2: 1}, {1: 1})
    assert hands.loads == [1, 1, 1]


def test_anchored_partition_moves_last_and_a_kept_one_never():
    hands = holding([], [0, 1, 2], [], anchors=[1, -1, 1, -1, -1, -1])
    move_partitions(hands, TAKERS, {1: 1}, {0: 1})
    assert hands.owners(NOBODY)[:3] == [1, 0, 1]

    keeping = MovablePartitions(3, POOL_OF, NOBODY)
    keeping.keep(1)
    move_partitions(keeping, TAKERS, {1: 1}, {0: 1})
    assert keeping.loads == [0, 1, 0]
    keeping.release(1, 0)
    move_partitions(keeping, TAKERS, {1: 1}, {0: 1})
    assert keeping.loads == [1, 0, 0]


def test_reached_are_those_to_whom_a_partition_could_come():
    hands = holding([0], [3], [4])
    assert hands.reached([0], TAKERS) == {0, 1, 2}
    assert hands.reached([2], TAKERS) == {1, 2}
    assert hands.reached([], TAKERS) == set()


def test_members_as_bits_are_read_back_ascending():
    assert list(members_of(bits([70, 3, 0]))) == [0, 3, 70]
    assert list(members_of(0)) == []
    assert list(members_of(union([bits([5]), 0, bits([5, 1])]))) == [1, 5]
