"""Tests of the code blocks on each page, in the order of the page. `test_every_block.py` checks that none is missing.

Blocks with command lines only are not listed: a test has the program of each line parse it.
"""

from __future__ import annotations

Claims = dict[tuple[str, str], tuple[str, ...]]
"""Tests of the blocks, by page and language."""


def _of(page: str, claims: dict[str, str]) -> Claims:
    """Return the claims of a page whose tests are in tests/docs/test_<page>_page.py.

    Args:
        page: the name of the page.
        claims: language -> names of tests without "test_", separated by spaces, one for each block.
    """
    file = f"tests/docs/test_{page.replace('-', '_')}_page.py"
    name = {"readme": "README", "architecture": "ARCHITECTURE"}.get(page, f"docs/{page}")
    return {
        (name, language): tuple(f"{file}::test_{test}" for test in tests.split()) for language, tests in claims.items()
    }


_WORKED = "tests/docs/test_worked_example_page.py::test_page_has_the_programs_that_are_tested"
_COMING = "tests/docs/test_coming_from_pages.py::test_"
_STATUS = "tests/docs/test_status_page.py::test_"
_TUTORIAL = "tests/integration/test_tutorial.py::test_tutorial_works_with_the_built_in_broker"

CLAIMS: Claims = {
    **_of(
        "readme",
        {
            "python": "orders_are_handled_by_key_or_become_dead_letters handler_prints_and_commits_every_message "
            "landing_writes_the_rows_of_the_transform documented_test_passes",
            "indented": "packages_are_enough_for_the_demo",
        },
    ),
    ("README", "toml"): ("tests/test_repository_rules.py::test_readme_toml_block_is_an_app_file",),
    **_of(
        "architecture",
        {
            "": "modules_exist_at_their_paths layers_equal_the_import_rules names_in_drawings_exist "
            "names_in_drawings_exist"
        },
    ),
    ("ARCHITECTURE", "mermaid"): ("tests/tools/test_diagrams.py::test_page_shows_the_current_state_tables",) * 3,
    **_of(
        "asyncio",
        {
            "python": "orders_are_booked application_consumes_what_it_produces rows_are_written_and_committed "
            "consumer_reads_the_first_value"
        },
    ),
    **_of("audit", {"": "examples_equal_the_output " * 2, "python": "program_runs"}),
    **_of("backpressure", {"python": "slow_partition_is_backpressured_alone " * 2}),
    ("docs/benchmarks", ""): ("tests/bench/test_page.py::test_page_equals_its_documents",),
    **{
        (f"docs/coming-from-{client}", "python"): (f"{_COMING}program_reads_all_and_commits",)
        for client in ("sarama", "kafka-python", "aiokafka", "confluent-kafka")
    },
    **{
        (f"docs/coming-from-{source}", language): tuple(_COMING + test for test in tests)
        for source, language, tests in (
            (
                *("faststream", "python"),
                ("program_of_faststream_has_its_names", "program_retries_orders_and_keeps_bad_ones"),
            ),
            ("parallel-consumer", "java", ("program_of_parallel_consumer_has_its_names",)),
            ("parallel-consumer", "python", ("program_retries_orders_and_keeps_bad_ones",)),
            ("spring-kafka", "java", ("program_of_spring_kafka_has_its_names",)),
            ("spring-kafka", "python", ("program_retries_orders_and_keeps_bad_ones",)),
        )
    },
    ("docs/message-handlers", "python"): tuple(
        f"tests/docs/test_message_handlers_page.py::test_{name}"
        for name in (
            *("orders_are_booked", "orders_are_decoded_and_added_up", "avro_orders_are_added_up"),
            *("failed_payments_go_through_all_topics", "dead_letters_are_kept_by_a_function"),
            *("rows_are_written_in_threads", "wrong_example_loses_messages", "own_tasks_mark_one_message_each"),
            *("orders_are_inserted_in_batches", "test_of_the_page_passes"),
        )
    ),
    ("docs/worked-example", "python"): (_WORKED,) * 3,
    ("docs/worked-example", "toml"): (_WORKED,),
    ("docs/message-handlers", "toml"): (
        "tests/docs/test_message_handlers_page.py::test_options_of_an_app_file_are_accepted",
    ),
    **_of("dead-letters", {"": "list_equals_the_output show_equals_the_output redrive_equals_the_output"}),
    ("docs/coming-from-spark", "python"): (f"{_COMING}program_lands_the_rows_of_the_transform",),
    ("docs/coming-from-spark", "toml"): (f"{_COMING}app_file_is_valid",),
    ("docs/coming-from-kafka-connect", "toml"): (f"{_COMING}app_file_is_valid",),
    ("docs/cli", "indented"): ("tests/docs/test_every_block.py::test_extras_to_install_exist",),
    **_of("configuration", {"python": "python_example_runs"}),
    **_of("fetching", {"python": "handler_reads_and_marks_every_message " * 2}),
    **_of("groups", {"": "listing_equals_the_output report_equals_the_output reset_equals_the_output"}),
    **_of(
        "handlers",
        {
            "python": "totals_cover_one_session remaining_rows_are_written_after_the_loop "
            "rows_are_written_once_despite_failing_commits failures_are_logged_with_their_offsets "
            "options_are_checked_and_their_defaults_known"
        },
    ),
    **_of(
        "offsets",
        {
            "python": "python_and_toml_examples_are_equal sink_starts_after_its_rows_in_the_same_log "
            "reader_starts_an_hour_ago interceptor_changes_read_messages",
            "toml": "python_and_toml_examples_are_equal",
        },
    ),
    **_of(
        "operations",
        {
            "json": "json_lines_have_the_fields_of_their_events",
            "text": "text_lines_equal_those_of_the_log",
        },
    ),
    **_of(
        "producing",
        {
            "python": "example_sends_its_records typed_records_are_sent orders_become_invoices",
            "toml": "dead_letter_option_is_accepted",
        },
    ),
    **_of(
        "rebalancing",
        {
            "python": "hours_of_faults_pass_in_virtual_time topics_by_name_or_pattern_can_be_changed "
            "offsets_are_committed_with_the_members_identity hours_of_faults_pass_in_virtual_time"
        },
    ),
    **_of(
        "security",
        {
            "python": "token_example_returns_a_token unauthorized_topic_raises_the_documented_error",
            "sh": "documented_commands_convert_a_key_store",
            "toml": "app_file_is_valid",
        },
    ),
    **_of(
        "shaping",
        {"python": "python_is_a_transform", "toml": "app_file_options_make_a_sink variant_options_make_a_sink"},
    ),
    ("docs/status-page", "python"): (f"{_STATUS}tracing_example_enables_spans",),
    ("docs/status-page", "toml"): (
        f"{_STATUS}named_settings_exist",
        f"{_STATUS}tracing_example_enables_spans",
        f"{_STATUS}host_names_are_allowed_by_the_example",
    ),
    ("docs/status-page", "yaml"): (
        f"{_STATUS}prometheus_example_scrapes_the_metrics_path",
        f"{_STATUS}alerts_are_on_metrics_that_exist",
    ),
    **_of(
        "tables",
        {
            "toml": "app_file_options_make_a_sink " * 6
            + "app_file_lands_each_topic_in_its_table page_has_the_example_that_is_tested"
        },
    ),
    ("docs/tables", "python"): ("tests/integration/test_lake_example.py::test_three_topics_become_tables",),
    **_of("testing", {"ini": "page_is_a_passing_test_suite", "python": "page_is_a_passing_test_suite " * 7}),
    ("docs/tutorial", "console"): (_TUTORIAL,) * 13,
    ("docs/tutorial", "python"): (_TUTORIAL,) * 3,
    ("docs/tutorial", "sh"): ("tests/docs/test_every_block.py::test_extras_to_install_exist",),
    ("docs/tutorial", "toml"): (_TUTORIAL,) * 2,
}
