import pytest
from gistbench.hf_datasets import load_taxonomy
from gistbench.runners.report import Options, run_analyses


@pytest.fixture
def runs(opened, interest):
    """A's interests of category 1 are all verified, B's one in four; category 2 is named by B alone."""
    users = range(40)
    return opened(
        {
            "org/a": {f"u{k}": [interest(f"a{k}", 1, e=2, correct=k % 2)] for k in users},
            "org/b": {f"u{k}": [interest(f"b{k}", 1, e=1 + (k % 4 == 0)), interest("tea", 2, e=2)] for k in users},
        }
    )


def test_shares_by_category(runs):
    frame = run_analyses(runs, ["strengths"], Options())[0].tables["categories"]
    taxonomy = load_taxonomy("open")
    frame = frame.set_index(["model", "category"])
    one, two = taxonomy.name_of(1), taxonomy.name_of(2)
    a, b = frame.loc[("org/a", one)], frame.loc[("org/b", one)]
    assert (a["n_interests"], a["n_users"], a["verified_share"], a["mean_specificity"]) == (40, 40, 1.0, 0.5)
    assert (b["n_verified"], b["verified_share"], b["others_verified_share"]) == (10, 0.25, 1.0)
    assert b["difference_verified_share"] == -0.75
    assert bool(a["differ"])
    assert bool(b["differ"])
    assert (a["found_share"], b["found_share"]) == (1.0, 0.25)  # of 40 pairs in the oracle
    alone = frame.loc[("org/b", two)]
    assert alone.isna()["p_value_fdr"]
    assert not bool(alone["differ"])


def test_shares_by_domain(runs):
    frame = run_analyses(runs, ["strengths"], Options())[0].tables["domains"].set_index(["model", "domain"])
    domain = load_taxonomy("open").domain_of(1)
    same = load_taxonomy("open").domain_of(2) == domain
    assert frame.loc[("org/b", domain), "n_interests"] == (80 if same else 40)
    assert frame.loc[("org/b", domain), "n_users"] == 40


def test_without_a_taxonomy_there_are_no_strengths(opened, interest):
    runs = opened({"org/a": {"u": [interest("jazz", 1, e=2)]}}, categories=False)
    assert "taxonomy" in run_analyses(runs, ["strengths"], Options())[0].missing
