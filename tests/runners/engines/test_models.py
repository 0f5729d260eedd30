import shutil

import huggingface_hub
import pytest
from gistbench.hf_datasets.errors import EngineError
from gistbench.runners.engines import models
from gistbench.runners.engines.models import digest_folder, resolve_model
from gistbench.runners.profiles import find_profile
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

COMMIT = "b5c939de8f754692c1647ca79fbf85e8c1e70f8a"
PROFILE = find_profile("org/model")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "SmolLM2"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(3 << 20))
    (folder / "sub" / "vocab.txt").write_text("a b c")
    return folder


@pytest.fixture
def hub(monkeypatch):
    """A Hub whose answers the test gives."""

    class Hub:
        online = LocalEntryNotFoundError("not there")
        cached = LocalEntryNotFoundError("not there")
        asked = ()

    def answer(given):
        if isinstance(given, Exception):
            raise given
        return given

    class Api:
        def model_info(self, name, *, revision, timeout):
            Hub.asked += (name, revision)
            return type("Info", (), {"sha": answer(Hub.online)})()

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, revision, local_files_only: answer(Hub.cached)
    )
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return Hub


def test_a_folder_is_named_by_its_name_and_content(folder):
    model, path = resolve_model(str(folder), None, None)
    assert (model.name, model.profile, path) == ("SmolLM2", str(PROFILE), str(folder))
    assert model.revision == digest_folder(folder)
    assert len(model.revision) == 64


def test_the_same_model_elsewhere_is_the_same_model(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "elsewhere" / "SmolLM2")
    assert resolve_model(str(copy), None, None)[0] == resolve_model(f"{folder}/", None, None)[0]


def test_hidden_files_and_folders_are_not_part_of_a_model(folder):
    before = digest_folder(folder)
    (folder / ".gitattributes").write_text("*")
    (folder / ".cache" / "huggingface").mkdir(parents=True)
    (folder / ".cache" / "huggingface" / "config.json.metadata").write_text("downloaded at 12:04")
    assert digest_folder(folder) == before


def test_a_model_in_a_hidden_folder_is_a_model(folder):
    hidden = folder.rename(folder.parent / ".models")
    before = digest_folder(hidden)
    (hidden / "config.json").write_text('{"a": 1}')
    assert digest_folder(hidden) != before


@pytest.mark.parametrize("position", [0, (1 << 20) - 1, (2 << 20), (3 << 20) - 1])
def test_a_changed_byte_at_either_end_of_the_weights_changes_the_digest(folder, position):
    before = digest_folder(folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(position)
        file.write(b"\1")
    assert digest_folder(folder) != before


@pytest.mark.parametrize("change", ["content", "name", "place", "size"])
def test_any_other_change_changes_the_digest(folder, change):
    before = digest_folder(folder)
    vocabulary = folder / "sub" / "vocab.txt"
    if change == "content":
        vocabulary.write_text("a b d")
    elif change == "name":
        vocabulary.rename(folder / "sub" / "words.txt")
    elif change == "place":
        vocabulary.rename(folder / "vocab.txt")
    else:
        (folder / "model.safetensors").write_bytes(bytes((3 << 20) + 1))
    assert digest_folder(folder) != before


def test_a_folder_without_a_model_is_an_error(tmp_path):
    with pytest.raises(EngineError, match=r"holds no model: there is no config\.json"):
        resolve_model(str(tmp_path), None, None)


@pytest.mark.parametrize("name", ["./model", "/models/gone", "~/model", "a/b/c"])
def test_a_path_without_a_folder_is_an_error_and_the_hub_is_not_asked(name, hub):
    with pytest.raises(EngineError, match="There is no folder"):
        resolve_model(name, None, None)
    assert hub.asked == ()


def test_a_name_on_the_hub_gets_its_commit(hub):
    hub.online = COMMIT
    model, load_from = resolve_model("org/model", "main", None)
    assert (model.name, model.revision, load_from) == ("org/model", COMMIT, "org/model")
    assert hub.asked == ("org/model", "main")


def test_the_cache_answers_where_the_hub_does_not(hub):
    hub.online = OSError("no route to host")
    hub.cached = f"/cache/models--org--model/snapshots/{COMMIT}"
    assert resolve_model("org/model", None, None)[0].revision == COMMIT


@pytest.mark.parametrize("value", ["1", "true", "on", "YES"])
def test_offline_asks_the_cache_only(hub, monkeypatch, value):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    hub.online = AssertionError("asked")
    hub.cached = f"/cache/models--org--model/snapshots/{COMMIT}"
    assert resolve_model("org/model", None, None)[0].revision == COMMIT
    hub.cached = LocalEntryNotFoundError("not there")
    with pytest.raises(EngineError, match=r"neither on the Hub \(HF_HUB_OFFLINE is set\) nor in the local cache"):
        resolve_model("org/model", None, None)


def test_a_model_that_is_nowhere_is_an_error_that_says_why(hub):
    hub.online = HfHubHTTPError("401 Client Error: gated", response=_response())
    with pytest.raises(EngineError, match=r"The model org/model@v1 was found neither.*401.*hf auth login"):
        resolve_model("org/model", "v1", None)


def _response():
    import httpx

    return httpx.Response(401, request=httpx.Request("GET", "https://huggingface.co/api/models/org/model"))


def test_offline_is_read_when_it_is_needed(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert not models.is_offline()
