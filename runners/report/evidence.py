"""Tables 12 and 13: one user's interests, what is cited for them, what the judge kept, and the verdict."""

import pandas as pd

from ...hf_datasets.errors import ConfigError
from .analysis import Analysis, Layout, Options, Unavailable, analysis
from .frames import typed
from .load import Group, Run, Runs
from .results import COUNTS

__all__ = ["inspect_user"]

_SIGNS = {
    "explicit_positive": "exp+",
    "implicit_positive": "imp+",
    "implicit_negative": "imp−",
    "explicit_negative": "exp−",
}


def inspect_user(run: Run, user: str, group: Group | None = None) -> dict[str, pd.DataFrame]:
    """Return all that a run holds about one user, readable.

    Args:
        run: scored.
        user: one of its requested users.
        group: of the run, for the names of categories.

    Returns:
        ``evidence``: one row for each cited object of each interest (Table 12); ``verdicts``: one for each interest
        (Table 13); ``categories``: what the oracle holds of the user, and whether it was found; ``scores``: one row.

    Raises:
        ConfigError: the run was not asked about the user.
    """
    users = run.users
    if user not in set(users["user_id"]):
        known = ", ".join(users["user_id"].head(5))
        raise ConfigError(f"{run.path} was not asked about user {user!r}. Its users are {known}, ...")
    taxonomy = group.taxonomy(None) if group else None
    names = dict(zip(taxonomy.ids, taxonomy.names, strict=True)) if taxonomy else {}

    def category_name(category: object) -> str:
        if isinstance(category, str):
            return category
        if category is None or category is pd.NA:
            return ""
        return "not mapped" if category == 0 else str(names.get(category, f"category {category}"))  # type: ignore[call-overload]

    cited = run.table("extractions").to_pandas()
    cited = cited.loc[cited["user_id"] == user, ["interest", "item_ids"]].explode("item_ids").dropna()
    cited = cited.rename(columns={"item_ids": "object_id"}).drop_duplicates()
    grounded = run.table("groundings").to_pandas()
    kept = grounded.loc[grounded["user_id"] == user, ["interest", "relevant_item_ids"]]
    kept = kept.explode("relevant_item_ids").dropna().rename(columns={"relevant_item_ids": "object_id"})
    seen = run.table("evidence").to_pandas()
    seen = seen.loc[seen["user_id"] == user]
    signs = seen.assign(sign=seen["interaction_type"].map(_SIGNS)).drop_duplicates(["object_id", "sign"])
    engaged = signs.groupby("object_id", sort=False)["sign"].agg(", ".join)
    texts = seen.drop_duplicates("object_id").set_index("object_id")["object_text"]
    evidence = cited.assign(
        content=cited["object_id"].map(texts),
        engagement=cited["object_id"].map(engaged).fillna("not in the history"),
    ).merge(kept.drop_duplicates().assign(relevant=True), on=["interest", "object_id"], how="left")
    evidence["relevant"] = evidence["relevant"].notna()

    interests = run.interests.loc[run.interests["user_id"] == user]
    reasons = run.table("interests", ["user_id", "interest", "failure_reasons"]).to_pandas()
    reasons = reasons.loc[reasons["user_id"] == user].set_index("interest")["failure_reasons"]
    column = interests["interest"] if run.by_name else interests["category_id"]
    verdicts = interests.assign(
        category=[category_name(category) for category in column],
        reasons=interests["interest"].map(reasons.map(lambda own: ", ".join(own).replace("_", " "))),
    )[["interest", "category", *COUNTS, "verified", "reasons", "n_correct", "n_backing", "specificity"]]

    found = set(run.categories.loc[run.categories["user_id"] == user, "category"])
    rows = [
        {"category": category_name(category), "found": category in found}
        for category in run.oracle.get(user, ())
    ]  # fmt: skip
    own = run.scores.loc[run.scores["user_id"] == user]
    columns = ["user_id", "ig_precision", "ig_recall", "ig_f1", "is", "hm", "n_interests", "n_verified"]
    asked = users.loc[users["user_id"] == user, ["n_engagements", "n_chunks", "n_chunks_answered"]]
    scores = own[columns].reset_index(drop=True).join(asked.reset_index(drop=True), how="outer")
    return {
        "evidence": typed(evidence, ["interest", "object_id", "content", "engagement", "relevant"]),
        "verdicts": typed(verdicts),
        "categories": typed(rows, ["category", "found"]),
        "scores": typed(scores.assign(user_id=user)),
    }


def _choose(runs: Runs, user: str | None) -> tuple[Group, Run, str]:
    """Return a run and a user to show: one with a verified and a failed interest, and few of them."""
    for group in runs.groups:
        for run in group.runs:
            if user is not None:
                if user in set(run.users["user_id"]):
                    return group, run, user
                continue
            counts = run.scores[["user_id", "n_interests", "n_verified"]]
            mixed = counts.loc[counts["n_verified"].between(1, counts["n_interests"] - 1)]
            if len(mixed):
                return group, run, str(mixed.sort_values(["n_interests", "user_id"])["user_id"].iloc[0])
    if user is not None:
        raise ConfigError(f"No run was asked about user {user!r}.")
    group = runs.groups[0]
    run = next((run for run in group.runs if run.scores["n_interests"].gt(0).any()), group.runs[0])
    named = run.scores.loc[run.scores["n_interests"] > 0, "user_id"]
    if not len(named):
        raise Unavailable("No scored user has an interest.")
    return group, run, str(named.iloc[0])


@analysis("table_12", "The evidence of one user's interests")
def table_12(runs: Runs, options: Options) -> Analysis:
    """Evidence and verdicts of one user (Tables 12 and 13)."""
    group, run, user = _choose(runs, options.user)
    tables = inspect_user(run, user, group)
    return Analysis(
        "table_12",
        "The evidence of one user's interests",
        f"User {user} of {run.dataset}, as {run.model} describes them and {run.judge} judges it. For each interest: "
        "the cited objects, how the user engaged with them, whether the judge kept them; then counts and verdict.",
        tables,
        layouts={
            "evidence": Layout(("interest",), (), ("object_id", "content", "engagement", "relevant")),
            "verdicts": Layout(("interest",), (), (*COUNTS, "verified", "reasons", "n_correct", "n_backing")),
        },
        policy={
            "user": "the one asked for"
            if options.user
            else "the first run's user with the fewest interests of which some are verified and some are not",
            "counts": "distinct cited objects that the judge kept, by interaction type",
        },
    )
