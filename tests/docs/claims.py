"""Which test has which block of code: one for each, in the order of the page. `test_every_block.py` holds it to that.

A block that is nothing but command lines is not here: each line of it is parsed by the program that it calls.
"""

from __future__ import annotations

Claims = dict[tuple[str, str], tuple[str, ...]]


def _of(page: str, claims: dict[str, str]) -> Claims:
    """Claims of tests/docs/test_<page>_page.py; `language: test test ...`, one for each block."""
    file = f"tests/docs/test_{page.replace('-', '_')}_page.py"
    name = {"readme": "README", "architecture": "ARCHITECTURE"}.get(page, f"docs/{page}")
    return {
        (name, language): tuple(f"{file}::test_{test}" for test in tests.split()) for language, tests in claims.items()
    }


_COMING = "tests/docs/test_coming_from_pages.py::test_"
_STATUS = "tests/docs/test_status_page.py::test_"
_WALKED = "tests/integration/test_tutorial.py::test_tutorial_can_be_walked"

CLAIMS: Claims = {
    **_of(
        "readme",
        {
            "python": "handler_prints_all_and_commits_it consumer_reads_and_commits "
            "landing_lands_what_the_transform_makes test_passes",
            "indented": "packages_are_those_that_the_demo_needs",
        },
    ),
    ("README", "toml"): ("tests/test_house.py::test_readme_toml_block_is_an_app_file",),
    **_of(
        "architecture",
        {
            "": "modules_are_where_they_are_said_to_be layers_are_those_that_are_checked names_in_drawings_exist "
            "names_in_drawings_exist"
        },
    ),
    ("ARCHITECTURE", "mermaid"): ("tests/tools/test_diagrams.py::test_page_shows_the_tables_as_they_are",) * 3,
    **_of("audit", {"": "examples_are_what_is_printed " * 2, "python": "program_runs"}),
    **_of("backpressure", {"python": "slow_partition_is_backpressured_alone " * 2}),
    ("docs/benchmarks", ""): ("tests/bench/test_page.py::test_page_says_what_the_documents_say",),
    **{
        (f"docs/coming-from-{client}", "python"): (f"{_COMING}program_reads_all_and_commits",)
        for client in ("sarama", "kafka-python", "aiokafka", "confluent-kafka")
    },
    ("docs/coming-from-spark", "python"): (f"{_COMING}program_lands_what_the_transform_makes",),
    ("docs/coming-from-spark", "toml"): (f"{_COMING}app_file_is_one",),
    ("docs/coming-from-kafka-connect", "toml"): (f"{_COMING}app_file_is_one",),
    ("docs/cli", "indented"): ("tests/docs/test_every_block.py::test_extras_that_are_to_be_installed_exist",),
    **_of("configuration", {"python": "python_runs_as_it_stands_there"}),
    **_of("fetching", {"python": "handler_reads_all_and_marks_it " * 2}),
    **_of("groups", {"": "listing_is_what_is_printed report_is_what_is_printed reset_is_what_is_printed"}),
    **_of(
        "handlers",
        {
            "python": "totals_are_those_of_one_session what_is_left_is_written_behind_the_loop "
            "each_row_is_there_once_though_commits_fail failures_are_told_with_their_offsets "
            "options_are_checked_and_their_defaults_known"
        },
    ),
    **_of(
        "offsets",
        {
            "python": "python_and_toml_say_the_same sink_starts_after_its_rows_in_the_same_log "
            "reader_begins_an_hour_ago interceptor_changes_what_is_read",
            "toml": "python_and_toml_say_the_same",
        },
    ),
    **_of(
        "operations",
        {
            "json": "json_lines_have_the_fields_of_their_events",
            "text": "text_lines_are_those_of_events_and_of_signals",
        },
    ),
    **_of("producing", {"python": "example_sends_what_it_says", "toml": "place_for_letters_is_said_so"}),
    **_of(
        "rebalancing",
        {
            "python": "hours_of_trouble_pass_in_moments topics_are_given_by_name_or_pattern_and_changed "
            "offsets_are_sent_with_who_the_member_is hours_of_trouble_pass_in_moments"
        },
    ),
    **_of(
        "security",
        {
            "python": "token_is_given topic_that_may_not_be_read_is_caught_alone_and_in_a_group",
            "sh": "key_store_becomes_a_pem_file_by_these_commands",
            "toml": "app_file_is_one",
        },
    ),
    **_of("shaping", {"python": "python_is_a_transform", "toml": "app_file_s_options_make_a_sink"}),
    ("docs/status-page", "python"): (f"{_STATUS}spans_are_asked_for_by_this",),
    ("docs/status-page", "toml"): (
        f"{_STATUS}settings_are_settings",
        f"{_STATUS}spans_are_asked_for_by_this",
        f"{_STATUS}names_are_let_in_by_this",
    ),
    ("docs/status-page", "yaml"): (
        f"{_STATUS}prometheus_is_sent_where_metrics_are",
        f"{_STATUS}alerts_are_on_metrics_that_exist",
    ),
    **_of("tables", {"toml": "app_files_options_make_a_sink " * 3}),
    **_of("testing", {"ini": "page_is_a_suite_that_passes", "python": "page_is_a_suite_that_passes " * 7}),
    ("docs/tutorial", "console"): (_WALKED,) * 13,
    ("docs/tutorial", "python"): (_WALKED,) * 3,
    ("docs/tutorial", "sh"): ("tests/docs/test_every_block.py::test_extras_that_are_to_be_installed_exist",),
    ("docs/tutorial", "toml"): (_WALKED,) * 2,
}
