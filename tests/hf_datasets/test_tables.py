import json
from pathlib import Path

import pytest
from gistbench.hf_datasets import oracle_official
from gistbench.hf_datasets.builder import prepare
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.oracle_official import (
    OFFICIAL_ORACLE_SHA256,
    OFFICIAL_ORACLE_VARIABLE,
    OracleOfficial,
    load_official_oracle,
)
from gistbench.hf_datasets.taxonomy import OFFICIAL_TAXONOMY_VARIABLE, load_taxonomy
from gistbench.hf_datasets.taxonomy_official import TaxonomyOfficial
from gistbench.hf_datasets.taxonomy_open import TaxonomyOpen

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "gistbench"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason=f"{REFERENCE} is not here")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch, tmp_path):
    monkeypatch.delenv(OFFICIAL_TAXONOMY_VARIABLE, raising=False)
    monkeypatch.delenv(OFFICIAL_ORACLE_VARIABLE, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("GISTBENCH_CACHE", str(tmp_path / "cache"))


def rows(builder_class, name, tmp_path, source=None):
    return prepare(builder_class, name, source=source, cache_dir=tmp_path / "datasets").as_dataset(split="train")


def test_open_taxonomy(tmp_path):
    dataset = rows(TaxonomyOpen, "taxonomy_open", tmp_path)
    taxonomy = load_taxonomy("open")
    assert dataset["category_id"][:] == list(taxonomy.ids)
    assert dataset[0] == {"category_id": 1, "category_name": taxonomy.names[0], "domain": taxonomy.domains[0]}
    with pytest.raises(ConfigError, match="comes with the package"):
        rows(TaxonomyOpen, "taxonomy_open", tmp_path, source="x")


@needs_reference
def test_official_taxonomy(tmp_path):
    dataset = rows(TaxonomyOfficial, "taxonomy_official", tmp_path, REFERENCE / "categories.csv")
    assert len(dataset) == 325
    assert dataset[2] == {"category_id": 3, "category_name": "Accidents, Emergencies & Tragedies", "domain": None}


def test_what_cannot_be_had(tmp_path):
    with pytest.raises(DataError, match=r"The official taxonomy is not here and HF_HUB_OFFLINE is set\. Get https://"):
        rows(TaxonomyOfficial, "taxonomy_official", tmp_path)
    with pytest.raises(DataError, match=rf"The official oracle is not here .*{OFFICIAL_ORACLE_SHA256}"):
        rows(OracleOfficial, "oracle_official", tmp_path)


@needs_reference
class TestOracle:
    @pytest.fixture
    def official(self, tmp_path):
        path = tmp_path / "oracle.json"
        path.write_text(json.dumps(json.loads((REFERENCE / "oracle_synthetic.json").read_text()), indent=2))
        return path

    def test_rows(self, official, tmp_path):
        dataset = rows(OracleOfficial, "oracle_official", tmp_path, official)
        taxonomy = load_taxonomy("official", source=REFERENCE / "categories.csv")
        assert len(dataset) == 997
        assert (dataset[0]["user_id"], dataset[0]["category_ids"][:4]) == ("1", [1, 3, 6, 7])
        assert (dataset[0]["taxonomy"], dataset[0]["taxonomy_sha256"]) == ("official", taxonomy.sha256)
        assert all(category in taxonomy for ids in dataset["category_ids"] for category in ids)
        assert dataset["user_id"][:] == sorted(dataset["user_id"])

    def test_other_bytes(self, tmp_path):
        with pytest.raises(DataError, match=f"is not the official oracle: .*expected {OFFICIAL_ORACLE_SHA256}"):
            load_official_oracle(REFERENCE / "oracle_synthetic.json")

    def test_environment_and_cache(self, official, tmp_path, monkeypatch):
        monkeypatch.setenv(OFFICIAL_ORACLE_VARIABLE, str(official))
        expected = load_official_oracle()
        monkeypatch.delenv(OFFICIAL_ORACLE_VARIABLE)
        monkeypatch.delenv("HF_HUB_OFFLINE")
        served = official.rename(tmp_path / "served.json")
        assert load_official_oracle(url=served.as_uri()) == expected
        served.unlink()
        assert load_official_oracle(url=served.as_uri()) == expected
        (cached,) = (tmp_path / "cache").iterdir()
        assert cached.name == f"oracle_synthetic-{OFFICIAL_ORACLE_SHA256[:12]}.json"


def test_an_oracle_of_another_shape():
    with pytest.raises(DataError, match="was expected"):
        oracle_official._parse(b'{"oracle": [1]}')
