from pathlib import Path

import pytest
import typer
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.cli import app
from gistbench.runners.config import FILE_ONLY, FLAGS, RunConfig, flag_of, load_config
from pydantic import ValidationError


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "run.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_defaults_are_a_run_on_the_embedded_data():
    config = load_config(None, {})
    assert config == RunConfig()
    assert (config.dataset, config.judge, config.chunk_size, config.pool_size) == ("demo", "lexical/overlap", 100, 1000)
    assert (config.names_per_mapping, config.thresholds, config.is_scope) == (3, "base", "category")


def test_a_file_is_read(toml):
    path = toml(
        """
        dataset = "movielens"
        source = "ml-latest-small"
        users = ["1", "2"]
        candidates = ["lexical/hashtag", {name = "gpt-5", engine = "openai", concurrency = 4}]
        [dataset_options]
        min_rating = 4.0
        [thresholds]
        explicit_positive = 1
        """
    )
    config = load_config(path, {})
    assert config.source == Path("ml-latest-small").absolute()
    assert config.users == ("1", "2")
    assert config.candidates == ("lexical/hashtag", {"name": "gpt-5", "engine": "openai", "concurrency": 4})
    assert config.dataset_options == {"min_rating": 4.0}
    assert config.thresholds == {"explicit_positive": 1}


def test_flags_go_before_the_file_and_what_is_not_given_does_not(toml):
    path = toml('dataset = "planted"\nseed = 3\nmax_reasks = 1')
    config = load_config(path, {"seed": 7, "dataset": None, "max_reasks": 0})
    assert (config.dataset, config.seed, config.max_reasks) == ("planted", 7, 0)


def test_an_unknown_key_is_an_error_that_lists_the_known_ones(toml):
    path = toml('candidate = "lexical/hashtag"')
    with pytest.raises(ConfigError) as error:
        load_config(path, {})
    assert str(error.value) == (
        f"{path}: there is no setting 'candidate'. Did you mean 'candidates'? There are: "
        f"{', '.join(RunConfig.model_fields)}."
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("chunk_size", 0, "--chunk-size 0: it must be 1 or more."),
        ("n_users", 0, "--users 0: it must be 1 or more."),
        ("seed", -1, "--seed -1: it must be 0 or more."),
        ("max_item_chars", 1, "max_item_chars = 1: it must be 2 or more."),
        ("thresholds", "harsh", "--thresholds 'harsh': there are base, lenient, strict."),
        ("is_scope", "all", "--is-scope 'all': there are category, verified."),
        ("pool_size", "many", "--pool-size 'many': it must be a whole number."),
        ("n_resamples", 1.5, "--resamples 1.5: it must be a whole number."),
        ("n_users", True, "--users True: it must be a whole number."),
    ],
)
def test_a_value_that_cannot_be_used_is_named_by_its_flag(name, value, message):
    with pytest.raises(ConfigError) as error:
        load_config(None, {name: value})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('candidates = "lexical/hashtag"', "candidates: it must be a list."),
        ("seed = -1", "seed = -1: it must be 0 or more."),
        ("users = [1]", "users.0 = 1: it must be text."),
        ('thresholds = "foo"', "thresholds = 'foo': there are base, lenient, strict."),
        ("[thresholds]\nexplicit_positive = -1", "thresholds.explicit_positive = -1: it must be 0 or more."),
        ("[thresholds]\nexplicit = 1", "thresholds = {'explicit': 1}: there is no 'explicit'; there are explicit_pos"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_file(toml, written, message):
    path = toml(written)
    with pytest.raises(ConfigError) as error:
        load_config(path, {"chunk_size": 7})
    assert str(error.value).startswith(f"{path}: {message}")
    assert "names_per_mapping" not in str(error.value)


def test_every_flag_that_a_message_names_is_one_of_the_command():
    run = typer.main.get_command(app).commands["run"]
    flags = {flag for parameter in run.params for flag in parameter.opts}
    assert {flag_of(field) for field in RunConfig.model_fields if field not in FILE_ONLY} <= flags
    assert not {f"--{field.replace('_', '-')}" for field in FILE_ONLY} & flags


@pytest.mark.parametrize("values", [{"api_key": "sk-secret"}, {"judge": 7}, {"candidates": "openai:m?key=sk-secret"}])
def test_what_may_be_a_secret_is_not_shown(values):
    with pytest.raises(ConfigError) as error:
        load_config(None, values)
    assert "sk-secret" not in str(error.value)


@pytest.mark.parametrize("thresholds", [{"explicit": 2}, {"explicit_positive": "two"}, {"explicit_positive": -1}])
def test_thresholds_that_mean_nothing_are_refused_before_anything_is_asked(thresholds):
    with pytest.raises(ConfigError, match="thresholds"):
        load_config(None, {"thresholds": thresholds})


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no configuration file .*nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml", {})


@pytest.mark.parametrize("content", [b"dataset = ", b"dataset = 'a'\ndataset = 'b'", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_named(tmp_path, content):
    (tmp_path / "run.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"run\.toml is not TOML"):
        load_config(tmp_path / "run.toml", {})


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ConfigError):
        load_config(tmp_path, {})


def test_what_is_recorded_reads_back_as_the_same_configuration():
    config = load_config(None, {"users": ("1",), "oracle": Path("o.json"), "candidates": ("a/b", {"name": "c"})})
    assert load_config(None, config.model_dump(mode="json")) == config


def test_a_configuration_does_not_change():
    with pytest.raises(ValidationError):
        RunConfig().seed = 1


def test_every_field_says_what_it_is():
    assert all(field.description for field in RunConfig.model_fields.values())


def test_false_switches_a_clause_off(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[thresholds]\nimplicit_positive = false\n", encoding="utf-8")
    assert load_config(path, {}).thresholds == {"implicit_positive": None}


def test_files_are_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "own.csv").write_text("user_id\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    config = load_config(None, {"dataset": "own.csv", "oracle": Path("oracle.json"), "taxonomy": "none"})
    assert config.dataset == str(tmp_path / "own.csv")
    assert config.oracle == tmp_path / "oracle.json"
    assert config.taxonomy == "none"
    assert load_config(None, {"dataset": "demo"}).dataset == "demo"


def test_keys_that_are_not_called_like_a_flag_are_documented(repo_root):
    page = (repo_root / "docs" / "running.md").read_text(encoding="utf-8")
    table = page.split("A key is called like its flag")[1].split("\n## ")[0]
    assert all(f"`{name}" in table for name in (*FLAGS, *FILE_ONLY))
