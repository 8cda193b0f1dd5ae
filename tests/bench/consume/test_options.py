"""Command-line options of the consume benchmark."""

from __future__ import annotations

import argparse

import pytest

from bench.consume.contenders import CONTENDERS
from bench.consume.options import Plan, add_options


def plan(*arguments: str) -> Plan:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return Plan.of(parser.parse_args(arguments))


def test_default_starts_with_small_values_and_all_contenders() -> None:
    default = plan()

    assert str(default.combinations[0]) == "200 B, none, random"
    assert (default.contenders, default.repeats, default.everyone) == (CONTENDERS, 3, False)


def test_default_has_each_size_and_codec_with_fitting_values() -> None:
    assert [str(combination) for combination in plan().combinations] == [
        f"{size} B, {rest}"
        for size in (200, 1000)
        for rest in ("none, random", "lz4, compressible", "zstd, compressible")
    ]


def test_requested_values_are_combined_with_codecs() -> None:
    requested = plan("--values", "random", "compressible", "--codecs", "none", "zstd", "--sizes", "200")

    assert [str(combination) for combination in requested.combinations] == [
        "200 B, none, random",
        "200 B, zstd, random",
        "200 B, zstd, compressible",
    ]


def test_quick_runs_one_short_round_of_the_first_combination() -> None:
    quick = plan("--quick", "--codecs", "lz4", "zstd")

    assert [str(combination) for combination in quick.combinations] == ["200 B, lz4, compressible"]
    assert quick.combinations[0].messages < plan().combinations[0].messages
    assert quick.repeats == 1


def test_quick_keeps_a_given_number_of_rounds() -> None:
    assert plan("--quick", "--repeats", "2").repeats == 2


def test_named_contenders_run_in_order_at_every_combination() -> None:
    named = plan("--contenders", "sarama", "sarameya-marked")

    assert [contender.name for contender in named.contenders] == ["sarameya-marked", "sarama"]
    assert named.everyone


def test_all_runs_every_contender_at_every_combination() -> None:
    assert plan("--all").everyone


def test_requested_messages_are_in_each_topic() -> None:
    assert {combination.messages for combination in plan("--messages", "5").combinations} == {5}


@pytest.mark.parametrize("arguments", [("--messages", "0"), ("--contenders", "nobody"), ("--sizes", "-1")])
def test_invalid_arguments_are_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        plan(*arguments)
    assert arguments[0] in capsys.readouterr().err
