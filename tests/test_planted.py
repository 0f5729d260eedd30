"""The planted data's truth against the scores: what answers the truth scores 1, and each kind of fault costs its price.

Candidates answer the prompts of the pipeline from the truth; the judge is the lexical one, or one that knows the truth.
"""

import json

import pytest
from gistbench.hf_datasets import load_engagements, load_taxonomy, planted_oracle, planted_truth
from gistbench.runners.engines.lexical.reading import interests, items, picks_wanted, record
from gistbench.runners.score import load_metric

SIZE = {"n_users": 4, "n_engagements_per_user": 100, "n_topics": 12}
TRUTH = planted_truth(**SIZE).to_pylist()
ORACLE = planted_oracle(**SIZE)
USERS = sorted(ORACLE)


def true_of(user):
    return [row for row in TRUTH if row["user_id"] == user and row["verified"]]


def false_of(user):
    return [row for row in TRUTH if row["user_id"] == user and not row["verified"]]


def claims_of_truth(user):
    return [(row["interest"], row["item_ids"]) for row in true_of(user)]


def candidate(claims_of, only_shown=True):
    """Answer an extract prompt with a user's claims; of cited items only those that the chunk shows."""

    def answer(request):
        shown = {entry.item_id for entry in record(request.messages[-1].content)}
        claims = [
            {"interest": name, "item_ids": [item for item in ids if item in shown or not only_shown]}
            for name, ids in claims_of(request.about.user)
        ]
        return json.dumps([claim for claim in claims if claim["item_ids"]])

    return answer


def truth_judge(request):
    """An item is about an interest when its text names it; an interest's category is the one of that name."""
    content = request.messages[-1].content
    names = interests(content)
    if request.stage == "map":
        taxonomy = load_taxonomy("open")
        ids = dict(zip(taxonomy.names, taxonomy.ids, strict=True))
        return "\n".join(f"{number}: {ids.get(name, 0)}" for number, name in enumerate(names, start=1))
    about = [i for i, text in enumerate(items(content)) if any(f" {name} " in text for name in names)]
    if request.stage == "retrieve":
        about = about[: picks_wanted(content)]
    return ", ".join(f"item_{i}" for i in about) or "NONE"


@pytest.fixture
def run_planted(scripted, run_suite, tmp_path):
    """Run claims against the planted oracle; return the run folder."""

    def run(claims_of, judge=truth_judge, only_shown=True, **settings):
        # Given as one of ours, bound to the taxonomy.
        given = {"oracle": ORACLE, "taxonomy": "open", "taxonomy_sha256": load_taxonomy("open").sha256}
        (tmp_path / "truth.json").write_text(json.dumps(given))
        suite = run_suite(
            dataset="planted",
            dataset_options=SIZE,
            candidates=(scripted("candidate", candidate(claims_of, only_shown)),),
            judge=judge if isinstance(judge, str) else scripted("judge", judge),
            oracle=tmp_path / "truth.json",
            **settings,
        )
        return suite.runs[0]

    return run


def per_user(run):
    return {row["user_id"]: row for row in run.read("scores").to_pylist()}


@pytest.mark.parametrize("judge", [truth_judge, "lexical/overlap"])
@pytest.mark.parametrize("chunk_size", [100, 7])
def test_the_truth_scores_one(run_planted, judge, chunk_size):
    """In one chunk or in fifteen, whose parts of an interest merge."""
    scores = per_user(run_planted(claims_of_truth, judge, chunk_size=chunk_size))
    assert list(scores) == USERS
    for user, row in scores.items():
        assert (row["ig_precision"], row["ig_recall"], row["ig_f1"], row["is"], row["hm"]) == (1, 1, 1, 1, 1)
        assert row["n_oracle_categories"] == len(ORACLE[user]) == 5
        assert row["n_unknown_item_ids"] == 0


@pytest.mark.parametrize("judge", [truth_judge, "lexical/overlap"])
def test_every_planted_verdict_is_found(run_planted, judge):
    """Of the false interests too: only negatives, too few, over the cap; and the merged ids are the planted ones."""
    run = run_planted(lambda user: [(r["interest"], r["item_ids"]) for r in true_of(user) + false_of(user)], judge)
    expected = {(row["user_id"], row["interest"]): row["verified"] for row in TRUTH}
    table = run.read("interests").to_pylist()
    assert {(row["user_id"], row["interest"]): row["verified"] for row in table} == expected
    planted = {(row["user_id"], row["interest"]): row for row in TRUTH}
    for row in table:
        truth = planted[row["user_id"], row["interest"]]
        assert row["category_id"] == truth["category_id"]
        assert sorted(row["relevant_item_ids"]) == sorted(truth["item_ids"])
        assert ("excessive_negative" in row["failure_reasons"]) == (truth["reason"] == "over_cap")


def test_a_stricter_setting_verifies_the_strong_interests_only(run_planted):
    run = run_planted(claims_of_truth, thresholds="strict")
    strong = {(row["user_id"], row["interest"]) for row in TRUTH if row["reason"] == "strong"}
    table = run.read("interests").to_pylist()
    assert {(row["user_id"], row["interest"]) for row in table if row["verified"]} == strong


def test_inventing_interests_costs_precision_only(run_planted):
    """Five true categories, three false ones and category 0 (two inventions, one share): 5 / 9; recall stays 1."""

    def claims_of(user):
        mine = claims_of_truth(user)
        false = [(row["interest"], row["item_ids"]) for row in false_of(user)]
        return [*mine, *false, ("Zzyzx worship", mine[0][1]), ("Qwfp collecting", [mine[1][1][0]])]

    run = run_planted(claims_of)
    for row in per_user(run).values():
        assert row["ig_precision"] == pytest.approx(5 / 9)
        assert row["ig_recall"] == 1
        assert row["ig_f1"] == pytest.approx(2 * (5 / 9) / (5 / 9 + 1))
        assert (row["n_interests"], row["n_verified"], row["n_categories"]) == (10, 5, 9)
        assert row["is"] == 1


def test_leaving_interests_out_costs_recall_only(run_planted):
    scores = per_user(run_planted(lambda user: claims_of_truth(user)[:2]))
    for row in scores.values():
        assert (row["ig_precision"], row["ig_recall"], row["is"]) == (1, pytest.approx(2 / 5), 1)


def noise_of(users):
    planted = {(row["user_id"], item) for row in TRUTH for item in row["item_ids"]}
    table = load_engagements("planted", **SIZE)
    rows = zip(table["user_id"].to_pylist(), table["object_id"].to_pylist(), strict=True)
    noise = {user: [] for user in users}
    for user, item in rows:
        if (user, item) not in planted:
            noise[user].append(item)
    return noise


def test_citing_off_topic_items_of_ones_own_costs_specificity_only(run_planted):
    """The judge drops them as evidence; but they back the interest, and nobody can tell them from other items."""
    noise = noise_of(USERS)

    def claims_of(user):
        off_topic = noise[user]
        return [(name, [*ids, *off_topic[6 * i : 6 * i + 6]]) for i, (name, ids) in enumerate(claims_of_truth(user))]

    run = run_planted(claims_of)
    truth = {(row["user_id"], row["interest"]): set(row["item_ids"]) for row in TRUTH}
    shares = {user: [] for user in USERS}
    for row in run.read("retrievals").to_pylist():
        found = truth[row["user_id"], row["interest"]] & set(row["backing_item_ids"])
        assert len(row["backing_item_ids"]) == 5
        assert set(row["selected_item_ids"]) == found
        shares[row["user_id"]].append(len(found) / 5)
    scores = per_user(run)
    for user, row in scores.items():
        assert (row["ig_precision"], row["ig_recall"]) == (1, 1)
        assert row["is"] == pytest.approx(sum(shares[user]) / 5)
    assert max(row["is"] for row in scores.values()) < 0.95


def test_citing_other_peoples_items_verifies_nothing_and_shows(run_planted):
    """All ids exist in the data, none in the user's history: they are unknown, and there is nothing to ground."""
    others = {user: USERS[i - 1] for i, user in enumerate(USERS)}
    mine = {(row["user_id"], item) for row in TRUTH for item in row["item_ids"]}
    mine |= {(user, item) for user, found in noise_of(USERS).items() for item in found}
    cited = {
        user: [
            (name, [item for item in ids if (user, item) not in mine]) for name, ids in claims_of_truth(others[user])
        ]
        for user in USERS
    }
    run = run_planted(cited.__getitem__, only_shown=False)
    for user, row in per_user(run).items():
        claims = [ids for _, ids in cited[user] if ids]
        assert (row["ig_precision"], row["ig_recall"], row["ig_f1"], row["is"], row["hm"]) == (0, 0, 0, 0, 0)
        assert row["n_unknown_item_ids"] == sum(map(len, claims)) > 0
        assert (row["n_verified"], row["n_without_backing"]) == (0, len(claims))
    assert set(run.read("groundings")["status"].to_pylist()) == {"no_known_items"}
    assert run.manifest["phases"]["judge"]["stages"]["ground"]["n_requests"] == 0
    table = run.read("interests").to_pylist()
    assert all(row["failure_reasons"][0] == "no_relevant_items" for row in table)
    assert all(sorted(row["unknown_item_ids"]) == sorted(dict(cited[row["user_id"]])[row["interest"]]) for row in table)


# --- the same through the modules alone ------------------------------------------------------------------------------


def scores_of(claims_of, relevant=lambda row, ids: ids):
    names = {row["interest"]: row["category_id"] for row in TRUTH}
    predictions = [
        [
            {
                "interest": name,
                "category_id": names.get(name, 0),
                "item_ids": ids,
                "relevant_item_ids": relevant(name, ids),
            }
            for name, ids in claims_of(user)
        ]
        for user in USERS
    ]
    history = load_engagements("planted", **SIZE)
    return load_metric("ig").compute(predictions=predictions, references=USERS, history=history, oracle=ORACLE)


def test_modules_the_truth():
    result = scores_of(claims_of_truth)
    assert (result["ig_precision"], result["ig_recall"], result["ig_f1"]) == (1, 1, 1)
    assert result["ci_ig_f1"] == [1, 1]


def test_modules_inventions():
    result = scores_of(lambda user: [*claims_of_truth(user), *((r["interest"], r["item_ids"]) for r in false_of(user))])
    assert result["per_user"]["ig_precision"] == [pytest.approx(5 / 8)] * len(USERS)
    assert result["per_user"]["ig_recall"] == [1] * len(USERS)


def test_modules_off_topic_items():
    noise = noise_of(USERS)
    result = scores_of(
        lambda user: [(name, ids + noise[user][:6]) for name, ids in claims_of_truth(user)],
        relevant=lambda name, ids: ids[:-6],
    )
    assert (result["ig_precision"], result["ig_recall"]) == (1, 1)
    record = {"category_id": None, "verified": True, "backing_item_ids": list("abcde")}
    picked = [
        {**record, "interest": "x", "selected_item_ids": list("abc")},
        {**record, "interest": "y", "selected_item_ids": list("abcde")},
    ]
    assert load_metric("is").compute(predictions=[picked], references=["u"])["is"] == pytest.approx((3 / 5 + 1) / 2)


def test_modules_other_peoples_items():
    result = scores_of(lambda user: [("Zzyzx worship", [f"{user}-not-mine", "nor-this"])])
    assert (result["ig_precision"], result["ig_recall"]) == (0, 0)
    assert result["per_user"]["n_unknown_item_ids"] == [2] * len(USERS)
    assert result["per_interest"]["failure_reasons"][0] == [
        "no_relevant_items",
        "insufficient_explicit_positive",
        "insufficient_implicit_positive",
    ]
