import json
import subprocess
import sys
from dataclasses import dataclass

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from gistbench.hf_datasets import folder as folders
from gistbench.hf_datasets.card import (
    CARD_PATH,
    ConfigEntry,
    describe_dataset,
    entries_from_json,
    entries_to_json,
    parameter_meanings,
    render_card,
)
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.folder import build_config, build_folder, embedded_entries, fingerprint_splits
from gistbench.hf_datasets.registry import CONFIG_NAMES, config_record, load_engagements
from gistbench.hf_datasets.schema import fingerprint_engagements
from gistbench.runners.cli_datasets import datasets_app
from typer.testing import CliRunner

COMMANDS = "from gistbench.runners.cli_datasets import datasets_app; datasets_app()"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def demo(cache):
    return build_config("demo", cache_dir=cache)


def front_matter(readme):
    return yaml.safe_load(readme.split("---\n")[1])


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The card


def test_the_committed_card_is_up_to_date(cache):
    assert CARD_PATH.read_text(encoding="utf-8") == render_card(embedded_entries(cache)), (
        "write it again: gistbench datasets card --output hf_datasets/CARD.md"
    )


def test_the_card_names_every_config_with_its_licence_and_thresholds():
    card = CARD_PATH.read_text(encoding="utf-8")
    for record in map(config_record, CONFIG_NAMES):
        assert f"`{record.name}`" in card
        assert " ".join(record.licence.split()) in card
        assert all(f"| `{record.name}` | `{name}` |" in card for name in record.parameters)
    assert "| `movielens` | `explicit_positive_min` | `4.0` | Lowest rating (0.5 to 5) that is an explicit pos" in card


def test_front_matter_holds_what_is_there_and_no_more(demo):
    data = front_matter(render_card([demo.entry]))
    shard = f"demo/train-00000-of-00001-{demo.entry.content_sha256[:8]}.parquet"
    assert data["configs"] == [{"config_name": "demo", "data_files": [{"split": "train", "path": shard}]}]
    (info,) = data["dataset_info"]
    assert info["splits"] == [{"name": "train", "num_bytes": demo.entry.splits["train"].n_bytes, "num_examples": 1158}]
    assert {"name": "interaction_time", "dtype": "float64"} in info["features"]
    assert data["size_categories"] == ["1K<n<10K"]


def test_statistics_and_what_was_left_out_are_in_the_card(cache):
    config = build_config("demo", cache_dir=cache, parameters={"min_engagements": 97})
    card = render_card([config.entry])
    assert config.entry.left_out
    assert "users with fewer than 97 engagements" in card
    assert "`1` (here `97`)" in card
    assert f"| `demo` | {config.entry.statistics.n_users} |" in card


def test_a_card_of_nothing():
    card = render_card([])
    assert "configs" not in front_matter(card)
    assert "None yet." in card


def test_other_peoples_configs_stay(demo):
    theirs = {"config_name": "theirs", "data_files": "theirs/*.csv"}
    info = {"config_name": "theirs", "features": [{"name": "x", "dtype": "string"}]}
    old = {"configs": [theirs, {"config_name": "demo", "data_files": "old.csv"}], "dataset_info": info}
    data = front_matter(render_card([demo.entry], existing=f"---\n{yaml.safe_dump(old)}---\ntext"))
    assert [config["config_name"] for config in data["configs"]] == ["demo", "theirs"]
    assert "old.csv" not in json.dumps(data)
    assert data["dataset_info"][1] == info


def test_a_readme_with_broken_front_matter_is_not_overwritten(demo):
    with pytest.raises(DataError, match="front matter that cannot be read"):
        render_card([demo.entry], existing="---\n- a\n- list\n---\ntext")


def test_records_survive_json(demo):
    entries = [demo.entry, describe_dataset(config_record("movielens"))]
    assert entries_from_json(entries_to_json(entries), source="x") == {entry.name: entry for entry in entries}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not the list of configs"),
        ("[]", "not the list of configs"),
        ('{"format": 1, "configs": {"demo": {}}}', r"KeyError: 'signals'"),
        ('{"format": 1, "configs": []}', "AttributeError"),
        ('{"format": 2, "configs": {}}', "its format is 2, and this gistbench reads 1. Update gistbench"),
    ],
)
def test_records_that_are_none(text, problem):
    with pytest.raises(DataError, match=rf"^DIR/gistbench\.json: .*{problem}"):
        entries_from_json(text, source="DIR/gistbench.json")


@dataclass
class Base:
    n: int = 1
    """How many ``things``,
    in all."""


@dataclass
class Derived(Base):
    undocumented: int = 2
    kind: str = "x"
    """As in :func:`~gistbench.x.kinds`."""


def test_meanings_are_read_beneath_the_fields():
    assert parameter_meanings(Derived) == {"n": "How many `things`, in all.", "kind": "As in `gistbench.x.kinds`."}


def test_the_command_checks_and_shows_the_drift(tmp_path):
    path = tmp_path / "CARD.md"
    path.write_text(CARD_PATH.read_text(encoding="utf-8").replace("1,158", "1,157"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, "card", "--check", "--output", str(path)], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "is not the card of the data sets as they are now" in done.stderr
    assert "1,157" in done.stderr


# The folder


def test_hash_of_rows_does_not_depend_on_chunks(demo):
    table = demo.splits["train"]
    cut = {"train": table.combine_chunks().slice(0, 700)}
    whole = {"train": table.slice(0, 700)}
    assert fingerprint_splits(cut) == fingerprint_splits(whole)
    assert fingerprint_splits(cut) != fingerprint_splits({"test": cut["train"]})
    assert fingerprint_splits(cut) != fingerprint_splits({"train": table.slice(1, 700)})
    assert len({fingerprint_splits({"train": table.slice(0, n)}) for n in range(5)}) == 5


def test_the_folder_loads(tmp_path, cache, demo):
    out = tmp_path / "built" / "demo"
    built = build_folder("demo", out, cache_dir=cache)
    assert built.changed
    assert sorted(files_of(out)) == ["README.md", *demo.entry.splits["train"].shards, "gistbench.json"]
    for name in (None, "demo"):
        loaded = datasets.load_dataset(str(out), name, cache_dir=str(tmp_path / "cache"))
        assert list(loaded) == ["train"]
        assert fingerprint_engagements(loaded["train"].data.table) == fingerprint_engagements(demo.splits["train"])
    assert fingerprint_engagements(demo.splits["train"]) == fingerprint_engagements(
        load_engagements("demo", cache_dir=cache)
    )
    streamed = list(datasets.load_dataset(str(out), split="train", streaming=True))
    assert streamed == demo.splits["train"].to_pylist()


def test_building_again_changes_nothing(tmp_path, cache):
    out = tmp_path / "built"
    build_folder("demo", out, cache_dir=cache)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert not build_folder("demo", out, cache_dir=cache).changed
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    assert [path.name for path in tmp_path.iterdir()] == ["built"]


def test_a_second_config_joins_and_a_changed_one_replaces(tmp_path, cache):
    out = tmp_path / "built"
    build_folder("demo", out, cache_dir=cache)
    build_folder("planted", out, cache_dir=cache, parameters={"n_users": 2})
    first = set(files_of(out))
    build_folder("planted", out, cache_dir=cache, parameters={"n_users": 3})
    second = set(files_of(out))
    assert len(first - second) == len(second - first) == 1
    load = {name: datasets.load_dataset(str(out), name, cache_dir=str(tmp_path / "c")) for name in ("demo", "planted")}
    assert (load["demo"].num_rows, load["planted"].num_rows) == ({"train": 1158}, {"train": 900})
    with pytest.raises(ValueError, match="Config name is missing"):
        datasets.load_dataset(str(out), cache_dir=str(tmp_path / "c"))


def test_shards(tmp_path, cache, demo):
    out = tmp_path / "built"
    built = build_folder("demo", out, cache_dir=cache, max_shard_bytes=40_000)
    shards = built.entry.splits["train"].shards
    assert len(shards) == 4
    tables = [pq.read_table(out / shard) for shard in shards]
    assert pa.concat_tables(tables).to_pylist() == demo.splits["train"].to_pylist()
    assert max(map(len, tables)) - min(map(len, tables)) <= 1
    loaded = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "c"))
    assert fingerprint_engagements(loaded.data.table) == fingerprint_engagements(demo.splits["train"])


def test_shards_of_two_sizes_are_the_same_content(tmp_path, cache):
    out = tmp_path / "built"
    build_folder("demo", out, cache_dir=cache, max_shard_bytes=40_000)
    build_folder("demo", out, cache_dir=cache)
    assert sum(path.endswith(".parquet") for path in files_of(out)) == 1
    assert datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "c")).num_rows == 1158


def test_a_table_that_is_no_engagements(tmp_path, cache):
    entry = build_folder("taxonomy_open", tmp_path / "built", cache_dir=cache).entry
    assert entry.statistics is None
    loaded = datasets.load_dataset(str(tmp_path / "built"), split="train", cache_dir=str(tmp_path / "c"))
    assert loaded.num_rows == entry.n_rows > 300


@pytest.mark.parametrize("step", ["write_shards", "_write_text"])
def test_a_build_that_fails_leaves_no_new_folder(tmp_path, cache, monkeypatch, step):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders, step, fail)
    with pytest.raises(OSError, match="No space left"):
        build_folder("demo", tmp_path / "built", cache_dir=cache)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["gistbench.json", "README.md"])
def test_a_build_that_fails_midway_leaves_the_old_data_loadable(tmp_path, cache, monkeypatch, name):
    out = tmp_path / "built"
    build_folder("planted", out, cache_dir=cache, parameters={"n_users": 2})
    write = folders._write_text

    def fail(path, text):
        if path.name == name:
            raise KeyboardInterrupt
        return write(path, text)

    with monkeypatch.context() as patched:
        patched.setattr(folders, "_write_text", fail)
        with pytest.raises(KeyboardInterrupt):
            build_folder("planted", out, cache_dir=cache, parameters={"n_users": 3})
    assert datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "c")).num_rows == 600
    # The same command again goes on.
    build_folder("planted", out, cache_dir=cache, parameters={"n_users": 3})
    assert datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "c")).num_rows == 900
    assert len(files_of(out)) == 3


def test_what_is_not_ours_is_left_alone(tmp_path, cache):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"photos: this folder is no dataset of gistbench's; it holds a\.jpg"):
        build_folder("demo", tmp_path / "photos", cache_dir=cache)
    with pytest.raises(DataError, match="file: this is a file"):
        build_folder("demo", tmp_path / "file", cache_dir=cache)
    (tmp_path / "empty").mkdir()
    assert build_folder("demo", tmp_path / "empty", cache_dir=cache).changed


def test_unknown_config():
    with pytest.raises(ConfigError, match="Did you mean 'demo'"):
        build_config("dem")


def test_entries_know_their_rows(demo):
    assert isinstance(demo.entry, ConfigEntry)
    assert demo.entry.n_rows == 1158
    assert demo.entry.made_from == ""
    assert describe_dataset(config_record("synthetic")).fetched


def test_the_build_command(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(datasets_app, ["build", *arguments, "--out", str(tmp_path / "built")])

    said = run("planted", "--option", "n_users=2").stdout
    assert said.startswith(f"Written: {tmp_path / 'built'}, 600 rows of planted.")
    assert f'datasets.load_dataset("{tmp_path / "built"}", "planted")' in said
    assert run("planted", "--option", "n_users=2").stdout.startswith("Unchanged: ")
    assert "Left out: 669 rows (users with fewer than 97 engagements)" in run(
        "demo", "--option", "min_engagements=97"
    ).stdout.replace("\n", " ")
    assert isinstance(run("movielens").exception, ConfigError)


def test_the_list_names_every_config():
    shown = CliRunner().invoke(datasets_app, ["list"], env={"COLUMNS": "240"}).stdout
    assert all(name in shown for name in CONFIG_NAMES)


def test_the_build_command_skips_and_counts_broken_lines_on_request(tmp_path):
    def run(arguments):
        command = [sys.executable, "-m", "gistbench.runners", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    source = tmp_path / "ml"
    source.mkdir()
    (source / "movies.csv").write_text("movieId,title,genres\n1,Heat (1995),Crime\n", encoding="utf-8")
    (source / "ratings.csv").write_text(
        "userId,movieId,rating,timestamp\n1,1,4.0,5\n2,1,high,6\n3,1,2.0,7\n", encoding="utf-8"
    )
    build = ["datasets", "build", "movielens", "--source", str(source), "--out", str(tmp_path / "built")]
    refused = run(build)
    assert refused.returncode == 1
    assert "ratings.csv" in refused.stderr
    assert not (tmp_path / "built").exists()
    done = run([*build, "--on-error", "skip"])
    assert done.returncode == 0, done.stderr
    assert "2 rows of movielens" in done.stdout
    assert "Left out: 1 rows" in done.stdout
