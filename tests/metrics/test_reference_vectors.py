"""The published reference's golden vectors, through the public calls; how to read them: their own README.

The cases that the vectors' README calls binding must agree to 1e-9; the numbers of them are asserted, so that a filter
that drops cases by mistake fails. The reference's quirks (``REFERENCE_AUDIT``) are tested for what is right instead.
"""

from collections import defaultdict

import pytest

TYPES = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")
TOLERANCE = 1e-9

# Counted once, from the files.
COUNT_CASES, ROW_CASES = 2000, 300
BINDING_WITH_MAP, BINDING_WITHOUT_MAP = 211, 54
STORES_WITH_MAP, STORES_WITHOUT_MAP = 26, 11  # of the former 24 map every interest, 2 more every verified one
STORE_SCORES_WITH_MAP, STORE_SCORES_WITHOUT_MAP = 521, 84


def signals_of(cfg):
    return [name for bit, name in enumerate(TYPES) if cfg >> bit & 1]


def table(rows):
    return dict(zip(("user_id", "object_id", "interaction_type"), map(list, zip(*rows, strict=True)), strict=True))


def record(name, ids, relevant=None, category=None):
    return {"interest": name, "category_id": category, "item_ids": ids, "relevant_item_ids": relevant}


# --- verify_interest.json -------------------------------------------------------------------------------------------


def test_verdicts_of_counts(ig, golden):
    cases = golden("verify_interest.json")["counts"]
    by_cfg = defaultdict(list)
    for *counts, cfg, verified in cases:
        by_cfg[cfg].append((counts, bool(verified)))
    checked = 0
    for cfg, group in by_cfg.items():
        rows, predictions = [], []
        for user, (counts, _) in enumerate(group):
            ids = [f"{t}-{i}" for t, count in enumerate(counts) for i in range(count)]
            rows += [(str(user), item, TYPES[int(item[0])]) for item in ids]
            rows.append((str(user), "uncited", "implicit_negative"))
            predictions.append([record("x", ids, ids)])
        result = ig.compute(
            predictions=predictions,
            references=list(range(len(group))),
            history=table(rows),
            signals=signals_of(cfg),
            n_resamples=0,
        )["per_interest"]
        assert result["verified"] == [verified for _, verified in group], cfg
        assert [list(c) for c in zip(*(result[f"n_{t}"] for t in TYPES), strict=True)] == [c for c, _ in group]
        checked += len(group)
    assert checked == COUNT_CASES


def test_verdicts_of_rows(ig, golden):
    data = golden("verify_interest.json")
    assert tuple(data["types"]) == TYPES
    by_cfg = defaultdict(list)
    for case in data["rows"]:
        by_cfg[case["cfg"]].append(case)
    checked = 0
    for cfg, group in by_cfg.items():
        result = ig.compute(
            predictions=[[record("x", case["filtered_ids"], case["filtered_ids"])] for case in group],
            references=list(range(len(group))),
            history=table([(str(user), item, TYPES[t]) for user, case in enumerate(group) for item, t in case["rows"]]),
            signals=signals_of(cfg),
            n_resamples=0,
        )["per_interest"]
        assert result["verified"] == [bool(case["verified"]) for case in group], cfg
        assert [list(c) for c in zip(*(result[f"n_{t}"] for t in TYPES), strict=True)] == [
            case["counts"] for case in group
        ]
        for case, unknown in zip(group, result["unknown_item_ids"], strict=True):
            engaged = {item for item, _ in case["rows"]}
            assert unknown == [item for item in dict.fromkeys(case["filtered_ids"]) if item not in engaged]
        checked += len(group)
    assert checked == ROW_CASES


# --- user_score.json ------------------------------------------------------------------------------------------------


class UserCase:
    """One case as input for both metrics; verified = two explicit positives, unverified = one implicit positive."""

    def __init__(self, case, user):
        self.case, self.user, self.out = case, user, case["out"]
        self.mapped = case["category_map"] is not None
        self.retrievals = {name: (correct, backing) for name, correct, _, backing in case["is"]}
        self.rows, self.ig_records, self.is_records = [], [], []
        for k, (name, verified) in enumerate(case["ig"]):
            items = [f"{k}-0", f"{k}-1"][: 1 + verified]
            self.rows += [(user, item, TYPES[1 - verified]) for item in items]
            category = case["category_map"].get(name, 0) if self.mapped else None
            self.ig_records.append(record(name, items, items, category))
            correct, size = self.retrievals.get(name, (0, 0))
            backing = [f"b{i}" for i in range(size)]
            self.is_records.append(
                {
                    "interest": name,
                    "category_id": category,
                    "verified": bool(verified),
                    "backing_item_ids": backing,
                    "selected_item_ids": backing[:correct],
                }
            )
        labels = {
            one["category_id"] if self.mapped else one["interest"]
            for one, (_, verified) in zip(self.ig_records, case["ig"], strict=True)
            if verified
        }
        self.verifies_unmapped = 0 in labels
        labels -= {0}
        n = case["oracle_count"]
        fillers = range(1000, 1000 + n) if self.mapped else [f"filler {i}" for i in range(n)]
        self.gap = len(labels) > n
        self.oracle = [*sorted(labels), *list(fillers)[: n - len(labels)]] if not self.gap else sorted(labels)[:n]

    @property
    def binding(self):
        quirks = {"duplicate_name", "recall_above_1", "oracle_zero", "empty", "missing_is_row"}
        return not quirks & set(self.case["tags"]) and not self.verifies_unmapped and not self.gap


def score_cases(ig, specificity, cases):
    users = [case.user for case in cases]
    grounded = ig.compute(
        predictions=[case.ig_records for case in cases],
        references=users,
        history=table([row for case in cases for row in case.rows] or [("-", "-", TYPES[0])]),
        oracle={case.user: case.oracle for case in cases},
        signals=TYPES,
        n_resamples=0,
    )["per_user"]
    specific = specificity.compute(
        predictions=[case.is_records for case in cases],
        references=users,
        ig_f1=dict(zip(users, grounded["ig_f1"], strict=True)),
        n_resamples=0,
    )["per_user"]
    return grounded, specific


@pytest.mark.parametrize(("mapped", "n_binding"), [(True, BINDING_WITH_MAP), (False, BINDING_WITHOUT_MAP)])
def test_user_scores(ig, specificity, golden, mapped, n_binding):
    cases = [UserCase(case, f"u{i}") for i, case in enumerate(golden("user_score.json")["cases"])]
    cases = [case for case in cases if case.binding and case.mapped == mapped]
    grounded, specific = score_cases(ig, specificity, cases)
    for i, case in enumerate(cases):
        for ours, theirs in (("ig_precision", "ig_p"), ("ig_recall", "ig_r"), ("ig_f1", "ig_f1")):
            assert grounded[ours][i] == pytest.approx(case.out[theirs], abs=TOLERANCE), (case.user, ours)
        assert specific["is"][i] == pytest.approx(case.out["is"], abs=TOLERANCE), case.user
        assert specific["hm"][i] == pytest.approx(case.out["hm"], abs=TOLERANCE), case.user
        assert grounded["n_oracle_categories"][i] == case.out["oracle_count"]
    assert len(cases) == n_binding


def tagged(golden, tag):
    cases = [UserCase(case, f"u{i}") for i, case in enumerate(golden("user_score.json")["cases"])]
    return [case for case in cases if tag in case.case["tags"]]


def test_recall_above_1_is_refused(ig, specificity, golden):
    cases = tagged(golden, "recall_above_1")
    assert [case.gap for case in cases].count(True) == 17
    for case in cases:
        if case.gap:
            with pytest.raises(ValueError, match=rf"oracle\['{case.user}'\] lacks category .*recall could exceed 1"):
                score_cases(ig, specificity, [case])
        else:  # the reference exceeded 1 only by counting category 0
            assert case.verifies_unmapped
            grounded, _ = score_cases(ig, specificity, [case])
            assert grounded["ig_recall"][0] <= 1 < case.out["ig_r"]


def test_users_without_interests_score_0_and_keep_their_oracle(ig, specificity, golden):
    cases = tagged(golden, "empty")
    grounded, specific = score_cases(ig, specificity, cases)
    assert grounded["ig_precision"] == [0.0] * len(cases) == specific["is"]
    for case, recall, n_oracle in zip(cases, grounded["ig_recall"], grounded["n_oracle_categories"], strict=True):
        assert n_oracle == case.case["oracle_count"]
        assert recall == (0.0 if n_oracle else None)
    assert len(cases) == 5


def test_users_with_an_empty_oracle_have_no_recall(ig, specificity, golden):
    cases = [case for case in tagged(golden, "oracle_zero") if case.mapped]
    grounded, specific = score_cases(ig, specificity, cases)
    assert cases
    assert set(grounded["ig_recall"]) == set(grounded["ig_f1"]) == set(specific["hm"]) == {None}
    assert None not in grounded["ig_precision"]


def test_duplicate_names_count_each_time(ig, specificity, golden):
    cases = [case for case in tagged(golden, "duplicate_name") if case.mapped and not case.gap]
    grounded, _ = score_cases(ig, specificity, cases)
    assert cases
    for i, case in enumerate(cases):
        shares = defaultdict(list)
        for one, (_, verified) in zip(case.ig_records, case.case["ig"], strict=True):
            shares[one["category_id"]].append(verified)
        expected = sum(sum(found) / len(found) for found in shares.values()) / len(shares)
        assert grounded["ig_precision"][i] == pytest.approx(expected, abs=TOLERANCE)


def test_a_verified_interest_without_retrieval_row_counts_0_with_and_without_map(ig, specificity, golden):
    cases = [
        case
        for case in tagged(golden, "missing_is_row")
        if not case.gap and not case.mapped and "duplicate_name" not in case.case["tags"]
    ]
    _, specific = score_cases(ig, specificity, cases)
    assert cases
    for i, case in enumerate(cases):
        found = [case.retrievals.get(name, (0, 0)) for name, verified in case.case["ig"] if verified]
        expected = sum(correct / size if size else 0.0 for correct, size in found) / len(found)
        assert specific["is"][i] == pytest.approx(expected, abs=TOLERANCE)


def test_category_0_counts_in_precision_and_never_in_recall(ig, specificity, golden):
    cases = [UserCase(case, f"u{i}") for i, case in enumerate(golden("user_score.json")["cases"])]
    quirks = {"duplicate_name", "recall_above_1", "oracle_zero", "empty"}
    cases = [c for c in cases if c.verifies_unmapped and not c.gap and not quirks & set(c.case["tags"])]
    grounded, _ = score_cases(ig, specificity, cases)
    assert cases
    for i, case in enumerate(cases):
        shares = defaultdict(list)
        for one, (_, verified) in zip(case.ig_records, case.case["ig"], strict=True):
            shares[one["category_id"]].append(verified)
        g = {category: sum(found) / len(found) for category, found in shares.items()}
        assert grounded["ig_precision"][i] == pytest.approx(case.out["ig_p"], abs=TOLERANCE)
        assert grounded["ig_recall"][i] == pytest.approx(
            (sum(g.values()) - g[0]) / case.case["oracle_count"], abs=TOLERANCE
        )


# --- oracle_store.json ----------------------------------------------------------------------------------------------


def store_cases(store):
    """Return ({(model, user): rows}, the oracle as the union of verified categories other than 0)."""
    rows, oracle = defaultdict(list), defaultdict(set)
    for model, user, *row in store["rows"]:
        rows[model, user].append(row)
        category = store["taxonomy_map"].get(row[0], 0)
        if row[1] and category:
            oracle[user].add(category)
    return rows, oracle


def score_store(ig, specificity, store, model, oracle):
    """Score one model's users of a store: {user: (ig_f1, is, hm, oracle size)}."""
    rows, _ = store_cases(store)
    by_user = {user: group for (owner, user), group in rows.items() if owner == model}
    cases = [
        UserCase(
            {
                "ig": [row[:2] for row in group],
                "is": [[name, *rest] for name, _, *rest in group],
                "category_map": store["taxonomy_map"],
                "oracle_count": 0,
                "out": {},
                "tags": [],
            },
            user,
        )
        for user, group in by_user.items()
    ]
    for case in cases:
        case.oracle = sorted(oracle.get(case.user, ()))
    grounded, specific = score_cases(ig, specificity, cases)
    return dict(
        zip(
            by_user,
            zip(grounded["ig_f1"], specific["is"], specific["hm"], grounded["n_oracle_categories"], strict=True),
            strict=True,
        )
    )


def maps_what_is_verified(store):
    """Tell whether no verified interest is unmapped or mapped to 0, where the reference's oracle is another one."""
    return all(store["taxonomy_map"].get(row[2], 0) for row in store["rows"] if row[3])


def test_scores_of_stores(ig, specificity, golden):
    stores = [store for store in golden("oracle_store.json")["stores"] if maps_what_is_verified(store)]
    assert len(stores) == STORES_WITH_MAP
    checked = 0
    for store in stores:
        _, own = store_cases(store)
        assert {user: sorted(found) for user, found in own.items()} == {
            user: found for user, found in store["oracle_from_store"].items() if found
        }
        merged = {user: set(found) for user, found in store["merged_oracle"].items()}
        for oracle, key in (
            (own, "rescore_all_min1"),
            (own, "rescore_all_min3"),
            (merged, "rescore_with_merged_oracle"),
        ):
            if isinstance(store[key], str):
                continue
            expected = defaultdict(dict)
            for user, model, *scores in store[key]:
                expected[model][user] = scores
            for model, by_user in expected.items():
                ours = score_store(ig, specificity, store, model, oracle)
                for user, (f1, found_is, hm, n_oracle) in by_user.items():
                    assert ours[user][3] == n_oracle
                    assert ours[user][1] == pytest.approx(found_is, abs=TOLERANCE)
                    if n_oracle:
                        assert ours[user][0] == pytest.approx(f1, abs=TOLERANCE)
                        assert ours[user][2] == pytest.approx(hm, abs=TOLERANCE)
                    else:  # the reference scores a user with an empty oracle 0; we leave the user out
                        assert ours[user][0] is None is ours[user][2]
                    checked += 1
    assert checked == STORE_SCORES_WITH_MAP


def test_specificity_of_stores_without_map(specificity, golden):
    stores = [store for store in golden("oracle_store.json")["stores"] if store["map_kind"] == "none"]
    assert len(stores) == STORES_WITHOUT_MAP
    checked = 0
    for store in stores:
        rows, _ = store_cases(store)
        for user, model, _, found_is, *_ in store["rescore_all_min1"]:
            case = UserCase(
                {
                    "ig": [row[:2] for row in rows[model, user]],
                    "is": [[name, *rest] for name, _, *rest in rows[model, user]],
                    "category_map": None,
                    "oracle_count": 0,
                    "out": {},
                    "tags": [],
                },
                user,
            )
            result = specificity.compute(predictions=[case.is_records], references=[user], n_resamples=0)
            assert result["is"] == pytest.approx(found_is, abs=TOLERANCE)
            checked += 1
    assert checked == STORE_SCORES_WITHOUT_MAP


def test_without_taxonomy_the_interest_is_its_category_and_f1_is_not_0(ig, golden):
    stores = [store for store in golden("oracle_store.json")["stores"] if store["map_kind"] == "none"]
    for store in stores:
        rows, _ = store_cases(store)
        (model, user), group = next((key, group) for key, group in rows.items() if any(row[1] for row in group))
        items = {row[0]: [f"{k}-0", f"{k}-1"][: 1 + row[1]] for k, row in enumerate(group)}
        result = ig.compute(
            predictions=[[record(row[0], items[row[0]]) for row in group]],
            references=[user],
            history=table([(user, item, TYPES[1 - row[1]]) for row in group for item in items[row[0]]]),
            oracle={user: [row[0] for row in group if row[1]]},
        )
        assert result["ig_f1"] > 0, model
    assert len(stores) == 11
