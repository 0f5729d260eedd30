"""What each column of the report's tables means: label, unit, digits. Spelled once, for all tables and figures.

Knows nothing about how a number is computed or written.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["COLUMNS", "KEY", "Column", "describe_column"]

KEY = ("dataset", "judge", "setting")
"""The columns that name a group of runs."""

Unit = Literal["fraction", "share", "count", "rho", "kappa", "tokens", "hours", "seconds", "usd", "p", "statistic",
               "text", "flag", "number"]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One column."""

    label: str
    unit: Unit
    """``fraction`` and ``share`` (of 1) are shown in per cent; ``text`` and ``flag`` have no number."""
    digits: int = 0
    """After the point, as shown (of per cent where shown so)."""

    @property
    def percent(self) -> bool:
        """Whether values are fractions of 1 that are shown in per cent."""
        return self.unit in ("fraction", "share")

    @property
    def heading(self) -> str:
        """The label with its unit, where that is not plain from the label."""
        shown = "%" if self.percent else {"hours": "h", "seconds": "s", "usd": "USD"}.get(self.unit, "")
        return f"{self.label} ({shown})" if shown else self.label


def _texts(**labels: str) -> dict[str, Column]:
    return {name: Column(label, "text") for name, label in labels.items()}


def _counts(**labels: str) -> dict[str, Column]:
    return {name: Column(label, "count") for name, label in labels.items()}


def _fractions(digits: int = 1, **labels: str) -> dict[str, Column]:
    return {name: Column(label, "fraction", digits) for name, label in labels.items()}


def _rest(**columns: tuple[str, Unit, int]) -> dict[str, Column]:
    return {name: Column(*column) for name, column in columns.items()}


COLUMNS: dict[str, Column] = {
    **_texts(
        dataset="Data set", judge="Judge", setting="Setting", model="Model", user_id="User", not_ranked="Not ranked",
        interaction_type="Interaction", note="Remark", taxonomy="Taxonomy", models="Models", interest="Interest",
        object_id="Object", content="Content", engagement="Engagement", category="Category", domain="Domain",
        reasons="Why not", reason="Reason", oracle="Oracle", length_option="Option", thresholds="Thresholds",
        metric="Metric", task="Task", annotator="Annotator", annotator_a="Annotator", annotator_b="Other annotator",
        level="Split", stage="Pass", external_name="Score from elsewhere", model_a="Model", model_b="Other model",
        judge_a="Judge", judge_b="Other judge", what="What", in_a="Before", in_b="After", run_a="Before", run_b="After",
        part="Part", place="Place", sentence="Sentence", judge_says="The judge", people_say="People",
    ),
    # Of `gistbench qrels experiments`, which prints and draws with the same means.
    **_texts(
        system="System", condition="Judgements", family="Family of recommenders", human="Rating", llm="Grade",
        mode="Shown to the judge", plot="Plots", ranking="Ranked", pool="Pool", user="User", profile="Profile",
        measure="Measure",
    ),
    **_counts(
        n_ratings="Ratings", n_systems="Systems", n_tests="Tests", n_significant="Differ", n_equivalent="Equivalent",
        n_tied_pairs="Tied pairs", n_tied_pairs_human="Tied pairs under the ratings", n_only_this="Only its own",
        n_labelled="Users judged by people", n_unlabelled="Other users", n_validated="Validated", depth="Depth",
    ),
    "chosen": Column("Chosen", "flag"),
    "met": Column("Criteria met", "flag"),
    **_rest(
        arp=("ARP", "number", 1), ap=("AP", "number", 3), ndcg=("NDCG", "number", 3), favour=("Favour", "number", 2),
        value=("Value", "number", 4), phi=("Tau with popularity", "number", 4),
        phi_human=("Tau with popularity under the ratings", "number", 4), share_head=("Head items", "share", 1),
        share_only_this=("Only its own", "share", 1), share_judged=("Judged", "share", 1),
        rating_density=("Density", "share", 3), mean_systems=("Systems per pair", "number", 1),
        mean_count=("Mean count", "number", 1), mae=("MAE", "number", 3), bias=("Bias", "number", 3),
        bias_elsewhere=("Bias elsewhere", "number", 3), weight=("Weight of the judge", "number", 3),
        people_alone=("People alone", "number", 4), people_alone_low=("People alone, 95 % low", "number", 4),
        people_alone_high=("People alone, 95 % high", "number", 4), judge_alone=("Judge alone", "number", 4),
        all_people=("All people", "number", 4), relative_width=("Relative width", "number", 3),
        bpref=("bpref", "number", 3), infap=("infAP", "number", 3), tau_ap=("Tau AP", "number", 3),
        tau_ndcg=("Tau NDCG", "number", 3), tau_ap_human=("Tau with AP under the ratings", "number", 3),
        tau_ndcg_human=("Tau with NDCG under the ratings", "number", 3),
        delta_tau_ndcg=("Delta tau NDCG", "number", 3),
    ),
    **{
        f"{name}_{when}": Column(f"{label}, {when}", "number", 3)
        for name, label in {
            "mae": "MAE", "bias": "Bias", "tau_ap": "Tau AP", "tau_ndcg": "Tau NDCG",
            "delta_tau_ndcg": "Delta tau NDCG",
        }.items()
        for when in ("before", "after")
    },
    **{f"mean_rating_{grade}": Column(f"Rating of grade {grade}", "number", 2) for grade in range(6)},
    **{
        f"{metric}_{name}": Column(f"{label}, {meaning}", "number", digits)
        for metric, label in {"ap": "AP", "ndcg": "NDCG"}.items()
        for name, meaning, digits in (
            ("lower", "lower bound", 3), ("upper", "upper bound", 3), ("condensed", "condensed", 3),
            ("left_out", "without its own pairs", 3), ("bias", "pool bias", 3), ("place", "place", 1),
            ("place_left_out", "place without its own pairs", 1),
        )
    },
    "is_scope": Column("IS scope", "text"),
    **{
        name: Column(label, "flag")
        for name, label in {
            "precision_leads": "P above R", "relevant": "Kept by the judge", "verified": "Verified", "found": "Found",
            "differ": "Differ", "failed": "Failed", "holds": "Holds",
        }.items()
    },
    **_counts(
        n_users="Users", n_requested="Users asked for", n_users_missing="Users without a score",
        n_users_left_out="Users left out", n_users_whole="Users in all", n_users_exact="Users for the very order",
        n_pairs="Pairs", n_models="Models",
        n_datasets="Data sets", n_interests="Interests", n_verified="Verified", n_unverified="Unverified",
        n_insufficient_implicit_positive="Ins. imp+", n_insufficient_explicit_positive="Ins. exp+",
        n_excessive_negative="Exc. neg", n_no_relevant_items="Nothing kept",
        n_users_a="Users, synthetic", n_users_b="Users, real", n_unique_interests="Unique interests",
        n_covered="Covered", n_categories="Categories", n_categories_needed="Categories needed", rank="Rank",
        n_explicit_positive="Exp+", n_implicit_positive="Imp+", n_implicit_negative="Imp−", n_explicit_negative="Exp−",
        n_correct="Picked of its own", n_backing="Backing items", n_engagements="Engagements", n_chunks="Prompts",
        n_chunks_answered="Prompts answered", length="Length", history_length="History length",
        chunk_size="Chunk size", n_verified_pairs="Verified", n_sole_provider="Sole provider",
        n_pairs_without="Pairs without it", n_oracle_pairs="Pairs in the oracle", n_items="Items",
        n_items_complete="Items that all label", n_annotators="Annotators", n_ties="Ties",
        n_true_positive="Kept by both", n_false_positive="Kept by the judge only",
        n_false_negative="Kept by people only", n_true_negative="Kept by neither",
        explicit_positive="Exp+ at least", implicit_positive="Imp+ at least",
        hybrid_explicit_positive="Hybrid exp+ at least", hybrid_implicit_positive="Hybrid imp+ at least",
        max_implicit_negative="Imp− at most", max_explicit_negative="Exp− at most",
        n_prompts="Prompts", n_attempts="Attempts", largest_rank_change="Largest change of rank",
    ),
    **{
        name: Column(label, "tokens")
        for name, label in {
            "tokens_in": "Input tokens", "tokens_cached": "Cached", "tokens_out": "Output tokens",
            "tokens_reasoning": "Reasoning", "tokens_per_interest": "Tokens per interest",
        }.items()
    },
    **_fractions(
        ig_precision="IG P", ig_recall="IG R", ig_f1="IG F1", hm="HM", coverage="Users scored",
        s_precision="S-Prec", s_recall="S-Rec", s_f1="S-F1", geometric_mean="Geometric mean of IG F1 and IS",
        zero_share="Users at 0", precision_leads_share="Users with P above R",
        insufficient_implicit_positive="Ins. Imp+",
        insufficient_explicit_positive="Ins. Exp+", excessive_negative="Exc. Neg", no_relevant_items="Nothing kept",
        reason_share="Share of unverified", verified_share="Verified", share_a="Share, first", share_b="Share, second",
        covered_share="Coverage", mean_covered_share="Mean coverage", category_share="Share of categories",
        cumulative_share="Share of interests", interest_share="Share of interests", specificity="Specificity",
        pair_share="Share of the oracle", at_least_share="By at least so many",
        sole_provider_share="Share of the oracle",
        largest_gain_without="Largest gain of recall without it", agreement_share="Agreement",
        agreement_share_with_ties="Agreement, ties counted", item_share="Share of items",
        agreeing_share="Samples that agree",
        score_a="First", score_b="Second", difference_of_means="Difference of means",
        difference_of_medians="Difference of medians", a_better_share="First better", b_better_share="Second better",
        drop="Drop", others_verified_share="Verified, other models", found_share="Found of the oracle",
        held_share="Intervals that hold", mean_width="Mean width", score="Score",
        score_if_missing_0="If missing score 0",
        score_if_missing_1="If missing score 1", effect="Effect", effect_alone="Effect alone", change="Change",
        score_a_common="First, common users", score_b_common="Second, common users", corrected="Corrected",
        sensitivity="Sensitivity", true_negative_rate="True negative rate", predictive_value="Predictive value",
        minimum="Least", lower_quartile="Lower quartile", median="Median", upper_quartile="Upper quartile",
        maximum="Greatest",
    ),
    "is": Column("IS", "fraction", 1),
    **_rest(
        rho=("rho", "rho", 2), rho_without=("rho without it", "rho", 2),
        rho_lenient=("rho, lenient", "rho", 3), rho_strict=("rho, strict", "rho", 3),
        rho_low=("rho, one sd below", "rho", 2), rho_high=("rho, one sd above", "rho", 2),
        kappa=("kappa", "kappa", 2), fleiss_kappa=("Fleiss' kappa", "kappa", 2),
        krippendorff_alpha=("Krippendorff's alpha", "kappa", 2), f1=("F1", "number", 2),
        p_value=("p", "p", 4), p_value_holm=("p (Holm)", "p", 4), p_value_fdr=("p (FDR)", "p", 4),
        t=("t", "statistic", 2), df=("df", "statistic", 1), mean_a=("Mean, synthetic", "number", 2),
        mean_b=("Mean, real", "number", 2), engagements=("Engagements per user", "number", 1),
        engagements_minimum=("Least", "number", 1), engagements_lower_quartile=("Lower quartile", "number", 1),
        engagements_median=("Median", "number", 1), engagements_upper_quartile=("Upper quartile", "number", 1),
        engagements_maximum=("Greatest", "number", 1),
        density=("Density of users", "number", 6), external=("Score from elsewhere", "number", 1),
        categories_per_user=("Categories per user", "number", 1),
        interests_per_user=("Interests per user", "number", 1), seconds=("Wall time", "seconds", 1),
        gpu_hours=("GPU time", "hours", 2), usd=("Price", "usd", 2), printed=("Printed", "number", 2),
        computed=("Computed", "number", 2), residual=("Residual", "number", 2),
        tolerance=("Rounding allows", "number", 2),
    ),
}  # fmt: skip
"""By name; :func:`describe_column` also knows what prefixes add."""

_PREFIXES = {
    "best_": ("best {}", "flag"),
    "published_": ("{}, published", None),
    "difference_": ("{}, difference", None),
    "residual_": ("{}, residual", None),
    "mean_": ("mean {}", None),
    "sd_": ("sd of {}", None),
    "group_": ("rank group, {}", "text"),
    "rank_": ("rank, {}", "count"),
    "n_users_": ("users with {}", "count"),
    "rho_": ("Spearman, {}", "rho"),
}


def describe_column(name: str) -> Column:
    """Return what a column means.

    >>> describe_column("ci_mean_ig_f1_low").heading
    'mean IG F1, 95 % low (%)'

    Raises:
        KeyError: no table has such a column.
    """
    if name in COLUMNS:
        return COLUMNS[name]
    if name.startswith("ci_") and name.endswith(("_low", "_high")):
        inner, _, side = name.removeprefix("ci_").rpartition("_")
        base = describe_column(inner)
        return Column(f"{base.label}, 95 % {side}", base.unit, base.digits)
    for prefix, (label, unit) in _PREFIXES.items():
        if name.startswith(prefix):
            base = describe_column(name.removeprefix(prefix))
            if unit is None:
                return Column(label.format(base.label), base.unit, base.digits)
            return Column(label.format(base.label), unit, 2 if unit == "rho" else 0)  # type: ignore[arg-type]
    raise KeyError(f"No table of the report has a column {name!r}.")
