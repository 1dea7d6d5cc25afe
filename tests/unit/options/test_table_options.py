"""Options: values, defaults, and what is refused."""

import pickle
from dataclasses import fields

import pytest

from pkray.errors import OptionError, UnsupportedError
from pkray.options import TableOptions, as_options, catalogue
from pkray.options.fields import FieldOptions, SequenceGroup

MB = 1 << 20


def test_defaults_are_paimons() -> None:
    options = TableOptions.parse({})
    assert options.bucket == -1
    assert options.merge_engine == "deduplicate"
    assert options.changelog_producer == "none"
    assert options.write_buffer_size == 256 * MB
    assert options.target_file_size == 128 * MB
    assert options.compaction_trigger == 5
    assert options.num_levels == 6
    assert options.num_sorted_run_stop_trigger == 8
    assert options.max_size_amplification_percent == 200
    assert options.size_ratio == 1
    assert options.manifest_target_file_size == 8 * MB
    assert options.manifest_merge_min_count == 30
    assert options.manifest_full_compaction_threshold_size == 16 * MB
    assert options.partition_default_name == "__DEFAULT_PARTITION__"
    assert options.snapshot_time_retained == 3_600_000
    assert options.lookup_cache_max_memory_size == 256 * MB
    assert options.lookup_cache_max_disk_size is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("256 mb", 256 * MB), ("8MB", 8 * MB), ("65536", 65536), ("2 gb", 2048 * MB),
     ("64 kb", 65536), ("500 bytes", 500), (" 1m ", MB), ("1 TiB", 1 << 40)],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert TableOptions.parse({"write-buffer-size": text}).write_buffer_size == size


@pytest.mark.parametrize(
    ("text", "millis"),
    [("1 h", 3_600_000), ("30min", 1_800_000), ("7 d", 604_800_000), ("10 s", 10_000),
     ("500", 500), ("500 ms", 500), ("2 hours", 7_200_000), ("1500 µs", 1)],
)  # fmt: skip
def test_durations(text: str, millis: int) -> None:
    options = TableOptions.parse({"snapshot.time-retained": text})
    assert options.snapshot_time_retained == millis


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("bucket", "four"),
        ("bucket", "-3"),
        ("bucket", "1.5"),
        ("bucket", "2147483648"),
        ("write-buffer-size", "256 megs"),
        ("write-buffer-size", "-1"),
        ("write-buffer-size", "0"),
        ("target-file-size", "0 mb"),
        ("manifest.target-file-size", "0"),
        ("source.split.target-size", "0 b"),
        ("snapshot.time-retained", "1 fortnight"),
        ("write-only", "yes"),
        ("merge-engine", "upsert"),
        ("changelog-producer", "all"),
        ("file.compression.per.level", "zero:lz4"),
        ("fields.a.ignore-retract", "maybe"),
        ("fields.a.aggregate-function", "summ"),
    ],
)
def test_a_bad_value_is_refused_by_key_value_and_what_is_allowed(key: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        TableOptions.parse({key: text})
    assert (caught.value.key, caught.value.value) == (key, text)
    assert caught.value.allowed in str(caught.value)


@pytest.mark.parametrize("text", ["Deduplicate", "FIRST-ROW"])
def test_choices_are_read_in_any_case(text: str) -> None:
    assert TableOptions.parse({"merge-engine": text}).merge_engine == text.lower()


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("bukcet", "bucket"),
        ("merge_engine", "merge-engine"),
        ("write-buffer-sise", "write-buffer-size"),
        ("fields.v.aggregate-functon", "fields.v.aggregate-function"),
        ("num-sorted-run.compaction.trigger", "num-sorted-run.compaction-trigger"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(OptionError, match="did you mean") as caught:
        TableOptions.parse({key: "1"})
    assert (caught.value.key, caught.value.nearest) == (key, nearest)


def test_an_unknown_key_of_another_engine_is_let_be() -> None:
    assert TableOptions.parse({"my.engine": "1", "bucket": "2"}, strict=False).bucket == 2


def test_a_bad_value_is_refused_in_others_tables_too() -> None:
    with pytest.raises(OptionError):
        TableOptions.parse({"bucket": "x"}, strict=False)


def test_a_value_that_is_not_text_is_refused() -> None:
    with pytest.raises(OptionError, match="option values are text"):
        TableOptions.parse({"bucket": 4})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("key", "text"),
    [("file.format", "orc"), ("branch", "dev"), ("data-file.thin-mode", "true"),
     ("primary-key", "id"), ("tag.automatic-creation", "watermark")],
)  # fmt: skip
def test_what_paimon_has_and_pkray_has_not_is_refused_as_such(key: str, text: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{key}'"):
        TableOptions.parse({key: text})


def test_an_unsupported_option_set_to_what_pkray_does_anyway_is_fine() -> None:
    TableOptions.parse({"branch": "main", "data-file.thin-mode": "false", "type": "table"})


def test_unsupported_options_of_others_tables_are_refused_when_it_matters() -> None:
    options = TableOptions.parse({"file.format": "orc"}, strict=False)
    assert options.file_format == "orc"
    with pytest.raises(UnsupportedError, match=r"file\.format"):
        options.require_supported()


def test_options_that_tune_other_engines_have_no_effect() -> None:
    assert TableOptions.parse({"page-size": "32 kb", "sort-engine": "min-heap"}) == TableOptions()


@pytest.mark.parametrize("engine", ["first-row", "deduplicate", "partial-update"])
def test_older_spellings_are_read(engine: str) -> None:
    assert TableOptions.parse({f"{engine}.ignore-delete": "true"}).ignore_delete


@pytest.mark.parametrize("first", [True, False])
def test_the_key_wins_over_its_older_spelling(first: bool) -> None:
    pairs = [("ignore-delete", "false"), ("first-row.ignore-delete", "true")]
    assert not TableOptions.parse(dict(pairs if first else pairs[::-1])).ignore_delete


def test_lists_of_columns() -> None:
    options = TableOptions.parse({"sequence.field": "a, b", "bucket-key": "k"})
    assert (options.sequence_field, options.bucket_key) == (("a", "b"), ("k",))


def test_levels_follow_the_trigger() -> None:
    options = TableOptions.parse({"num-sorted-run.compaction-trigger": "10"})
    assert (options.num_levels, options.num_sorted_run_stop_trigger) == (11, 13)


def test_the_stop_trigger_is_never_below_the_compaction_trigger() -> None:
    options = TableOptions.parse({"num-sorted-run.stop-trigger": "2"})
    assert options.num_sorted_run_stop_trigger == 5


def test_options_of_a_column() -> None:
    options = TableOptions.parse(
        {
            "fields.v.aggregate-function": "listagg",
            "fields.v.list-agg-delimiter": "; ",
            "fields.v.ignore-retract": "true",
            "fields.a.b.distinct": "true",
            "fields.default-aggregate-function": "last_value",
        }
    )
    assert options.of_field("v") == FieldOptions("listagg", True, "; ")
    assert options.of_field("a.b").distinct
    assert options.of_field("other") == FieldOptions()
    assert options.default_aggregate_function == "last_value"


def test_sequence_groups() -> None:
    options = TableOptions.parse(
        {"fields.g_1.sequence-group": "a,b", "fields.s,t.sequence-group": "c"}
    )
    assert options.sequence_groups == (
        SequenceGroup(("g_1",), ("a", "b")),
        SequenceGroup(("s", "t"), ("c",)),
    )


def test_options_survive_pickling() -> None:
    options = TableOptions.parse({"bucket": "3", "fields.v.distinct": "true"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_has_a_doc_and_a_unique_key() -> None:
    options = list(catalogue())
    keys = [key for option in options for key in (option.key, *option.aliases)]
    assert len(set(keys)) == len(keys)
    assert all(option.doc.endswith(".") for option in options)


def test_no_two_subjects_have_an_attribute_of_one_name() -> None:
    names = [field.name for subject in TableOptions.__bases__ for field in fields(subject)]
    assert len(set(names)) == len(names) == len(list(catalogue()))


@pytest.mark.parametrize("key", ["commit.callbacks", "streaming.read.snapshot.delay"])
def test_what_others_do_beside_commits_and_streams_is_not_silently_left_out(key: str) -> None:
    with pytest.raises(UnsupportedError, match=key):
        TableOptions.parse({key: "1 min"})


@pytest.mark.parametrize("text", ["", "  "])
@pytest.mark.parametrize("key", [each.key for each in catalogue()])
def test_no_option_can_be_empty(key: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option {key!r} cannot be {text!r}"):
        TableOptions.parse({key: text})


def test_tables_that_have_an_empty_option_can_be_read() -> None:
    options = TableOptions.parse({"sequence.field": "", "consumer-id": ""}, strict=False)
    assert options.sequence_field == ()


def test_options_are_given_once() -> None:
    assert as_options([("bucket", "4"), ("path", "p")]) == {"bucket": "4", "path": "p"}
    with pytest.raises(OptionError, match="'bucket' is set twice, to '4' and to '5': keep one"):
        as_options([("bucket", "4"), ("bucket", "5")])
