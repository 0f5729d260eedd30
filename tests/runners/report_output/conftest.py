"""Run folders of the real suite with lexical engines, and made-up tables for every kind of figure."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from gistbench.runners.config import RunConfig
from gistbench.runners.report.analysis import Analysis, FigureSpec, Layout, Reference
from gistbench.runners.report.build import Report, build_report
from gistbench.runners.suite import Suite

NASTY = "<img src=x onerror=alert(1)></script><b>&amp; $5$ | 100% _x_ {y} \\z"
MODELS = ("openai/gpt-oss-120b", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "Qwen/Qwen3-32B", "lexical/tfidf", NASTY)
DATASETS = ("synthetic", "movielens")
ISO = tuple(Reference("iso_f1", level / 10, f"F1 {level / 10:g}") for level in (3, 5, 7))


@pytest.fixture(scope="session")
def demo_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "demo"
    candidates = ("lexical/hashtag", "lexical/tfidf", "lexical/phrase")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Suite(folder, RunConfig(dataset="demo", candidates=candidates, pool_size=60, n_resamples=50)).run()
    return folder


@pytest.fixture(scope="session")
def demo_report(demo_suite: Path) -> Report:
    which = (
        "summary",
        "table_3",
        "table_12",
        "table_17",
        "figure_3",
        "figure_4",
        "figure_5",
        "figure_9",
        "comparisons",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build_report([demo_suite], which)


def _rows(rng: np.random.Generator, datasets: tuple[str, ...] = DATASETS) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"dataset": dataset, "judge": "judge", "setting": "", "model": model, "ig_recall": rng.uniform(0.1, 0.9),
             "ig_precision": rng.uniform(0.1, 0.9), "ig_f1": rng.uniform(0.2, 0.7),
             "categories_per_user": rng.uniform(5, 40), "n_interests": int(rng.integers(900, 90_000))}
            for dataset in datasets
            for model in MODELS
        ]
    )  # fmt: skip


@pytest.fixture(scope="session")
def kinds() -> Mapping[str, tuple[FigureSpec, dict[str, pd.DataFrame]]]:
    """One figure of each kind and use: name -> spec and tables."""
    rng = np.random.default_rng(7)
    rows = _rows(rng)
    users = pd.DataFrame(
        [
            {"dataset": "synthetic", "model": model, "user_id": f"u{n}", "ig_recall": float(rng.uniform()),
             "ig_precision": float(rng.uniform())}
            for model in MODELS
            for n in range(60)
        ]
    )  # fmt: skip
    medians = users.groupby(["dataset", "model"], sort=False)[["ig_recall", "ig_precision"]].median().reset_index()
    means = rows.rename(columns={"ig_f1": "mean_ig_f1"})
    means = means.assign(
        ci_mean_ig_f1_low=means["mean_ig_f1"] - 0.05, ci_mean_ig_f1_high=means["mean_ig_f1"] + 0.07
    )  # fmt: skip
    boxes = pd.DataFrame(np.sort(rng.uniform(size=(len(MODELS), 5)), axis=1))
    boxes.columns = pd.Index(["minimum", "lower_quartile", "median", "upper_quartile", "maximum"])
    pairs = pd.DataFrame(
        [
            {"dataset": "synthetic", "model_a": a, "model_b": b, "difference_of_means": float(rng.normal(0, 0.1))}
            for n, a in enumerate(MODELS)
            for b in MODELS[n + 1 :]
        ]
    )  # fmt: skip
    domains = pd.DataFrame(
        [
            {"model": model, "domain": domain, "verified_share": float(rng.uniform())}
            for domain in ("Music", "Food & drink", "Science")
            for model in MODELS
        ]
    )  # fmt: skip
    confusion = pd.DataFrame(
        [
            {"in_a": a, "in_b": b, "n_items": n}
            for a, b, n in (("kept", "kept", 812), ("kept", "left", 40), ("left", "kept", 7), ("left", "left", 390))
        ]
    )  # fmt: skip
    share = np.linspace(0, 1, 101)
    cumulative = pd.concat(
        pd.DataFrame({"taxonomy": name, "category_share": share, "cumulative_share": share**power})
        for name, power in (("open", 0.3), ("official", 0.2))
    )
    sizes = np.array([10, 20, 50, 100, 200, 500, 1000])
    stability = pd.concat(
        pd.DataFrame({"dataset": name, "n_users": sizes, "rho": 1 - k / sizes**0.5, "rho_low": 1 - 1.5 * k / sizes**0.5,
                      "rho_high": 1 - 0.6 * k / sizes**0.5})
        for name, k in (("synthetic", 1.0), ("movielens", 2.0), ("yelp", 2.1))
    )  # fmt: skip
    ranks = pd.DataFrame(
        [
            {"thresholds": setting, "model": model, "rank": int(rank)}
            for setting in ("lenient", "base", "strict")
            for model, rank in zip(MODELS, rng.permutation(len(MODELS)) + 1, strict=True)
        ]
    ).astype({"rank": "Int64"})  # fmt: skip
    reasons = pd.DataFrame(
        [
            {"dataset": row.dataset, "model": row.model, "reason": reason, "reason_share": float(rng.uniform(0, 0.9))}
            for row in rows.itertuples()
            for reason in ("excessive_negative", "no_relevant_items", "insufficient_implicit_positive")
        ]
    )  # fmt: skip
    counts = pd.DataFrame({"dataset": "synthetic", "n_models": range(1, 9), "pair_share": 0.5 / np.arange(1, 9)})
    effects = pd.DataFrame(
        {"metric": ["ig_f1", "is"] * 3, "part": ["judge"] * 2 + ["oracle"] * 2 + ["prompts"] * 2,
         "effect": [0.02, -0.06, 0.08, 0.03, 0.04, -0.12]}
    )  # fmt: skip
    unit = {"x_range": (0.0, 1.0), "y_range": (0.0, 1.0)}
    caption = f"What to see: {NASTY}"

    def spec(kind: str, title: str, **columns: object) -> FigureSpec:
        return FigureSpec(kind, "rows", title, caption, **columns)  # type: ignore[arg-type]

    return {
        "bubbles": (
            spec("scatter", "Precision against recall", x="ig_recall", y="ig_precision", colour="ig_f1",
                 size="categories_per_user", label="model", facet="dataset", references=ISO, **unit),
            {"rows": rows},
        ),
        "users": (
            spec("scatter", "User by user", x="ig_recall", y="ig_precision", group="model", facet="dataset", faint=True,
                 overlay="medians", references=(Reference("diagonal", label="precision = recall"),), **unit),
            {"rows": users, "medians": medians},
        ),
        "labelled": (spec("scatter", "Counts", x="n_interests", y="ig_f1", label="model"), {"rows": rows}),
        "forest": (
            spec("forest", "Means", x="mean_ig_f1", y="model", low="ci_mean_ig_f1_low", high="ci_mean_ig_f1_high",
                 facet="dataset"),
            {"rows": means},
        ),
        "box": (
            spec("box", "IG F1 over users", x="model", y="median",
                 references=(Reference("horizontal", 0.5, "overall"),)),
            {"rows": boxes.assign(model=MODELS)},
        ),
        "differences": (
            spec("heatmap", "Differences", x="model_b", y="model_a", colour="difference_of_means"), {"rows": pairs},
        ),
        "heatmap": (spec("heatmap", "Domains", x="model", y="domain", colour="verified_share"), {"rows": domains}),
        "confusion": (spec("heatmap", "Confusion", x="in_b", y="in_a", colour="n_items"), {"rows": confusion}),
        "cumulative": (
            spec("line", "Concentration", x="category_share", y="cumulative_share", group="taxonomy",
                 references=(Reference("horizontal", 0.5, "half of the interests"),), **unit),
            {"rows": cumulative},
        ),
        "band": (
            spec("line", "Stability", x="n_users", y="rho", group="dataset", low="rho_low", high="rho_high", log_x=True,
                 references=(Reference("vertical", 200.0, "200 users"),)),
            {"rows": stability},
        ),
        "ranks": (spec("line", "Ranks", x="thresholds", y="rank", group="model"), {"rows": ranks}),
        "grouped": (spec("bar", "Reasons", x="reason_share", y="model", group="reason"), {"rows": reasons}),
        "columns": (spec("bar", "Providers", x="n_models", y="pair_share", facet="dataset"), {"rows": counts}),
        "signed": (spec("bar", "Effects", x="effect", y="part", group="metric"), {"rows": effects}),
    }  # fmt: skip


KINDS = ("bubbles", "users", "labelled", "forest", "box", "differences", "heatmap", "confusion", "cumulative", "band",
         "ranks", "grouped", "columns", "signed")  # fmt: skip


@pytest.fixture(params=KINDS)
def figure(request: pytest.FixtureRequest, kinds) -> tuple[FigureSpec, dict[str, pd.DataFrame]]:
    return kinds[request.param]


@pytest.fixture(scope="session")
def made_up(kinds) -> Report:
    """A report of made-up analyses: every kind of figure, names that are markup, and one that is missing."""
    rows = kinds["bubbles"][1]["rows"]
    scores = rows.assign(
        ci_ig_f1_low=rows["ig_f1"] - 0.1, ci_ig_f1_high=rows["ig_f1"] + 0.1, best_ig_f1=rows["ig_f1"] > 0.6,
        group_ig_f1="a", published_ig_f1=np.where(rows["model"] == MODELS[0], 0.613, np.nan),
    )[["dataset", "judge", "setting", "model", "ig_f1", "ci_ig_f1_low", "ci_ig_f1_high", "best_ig_f1", "group_ig_f1",
       "published_ig_f1"]]  # fmt: skip
    layout = Layout(("model",), ("dataset", "judge", "setting"), ("ig_f1",))
    analyses = [
        Analysis(
            "table_3", "Scores " + NASTY, "Caption " + NASTY, {"medians": scores}, layouts={"medians": layout},
            policy={"thresholds": {"preset": "base"}, "said": NASTY, "nothing": float("nan")}, notes=("Note " + NASTY,),
        ),
        *(
            Analysis(name, spec.title, spec.caption, tables, {name: spec}, policy={"kind": spec.kind})
            for name, (spec, tables) in kinds.items()
        ),
        Analysis("table_17", "Annotators", "", missing="Needs a csv of labels: " + NASTY),
    ]  # fmt: skip
    versions = {"gistbench": "0", "runs": [{"model": model, "dataset": "synthetic"} for model in MODELS]}
    return Report(tuple(analyses), versions)
