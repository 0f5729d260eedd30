"""What the page's own numbers say about each other: each check with its residual. Needs no runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from .analysis import Analysis, Layout, Options, analysis
from .frames import spearman, typed
from .load import Runs
from .published import records, value

__all__ = ["OFFICIAL_PAIRS", "checks"]

OFFICIAL_PAIRS = 91_054
"""(User, category) pairs of the official oracle of `synthetic`, counted in its file (997 users)."""


class Check(NamedTuple):
    """One check: two ways to the same number."""

    place: str
    what: str
    printed: float | None
    """None where the page cuts the number: ``computed`` is then what it must be."""
    computed: float
    tolerance: float = 0
    """What rounding of the printed numbers allows."""
    remark: str = ""

    @property
    def holds(self) -> bool:
        """Whether the residual is within the tolerance; what follows from the page alone holds."""
        return self.residual is None or abs(self.residual) <= self.tolerance + 1e-9

    @property
    def residual(self) -> float | None:
        """Printed less computed."""
        return None if self.printed is None else self.printed - self.computed


def _column(table: str, column: str) -> dict[str, float]:
    rows = records()
    own = rows.loc[(rows["table"] == table) & (rows["column"] == column) & (rows["row"] != "caption")].dropna(
        subset="value"
    )
    return dict(zip(own["row"], own["value"].astype(float), strict=True))


def checks() -> list[Check]:
    """Return all checks, in the order of the tables; percentages are in per cent."""
    return [check for part in _PARTS for check in part()]


def _scores() -> list[Check]:
    found = []
    for dataset in ("Synthetic", "KuaiRec"):
        p, r = (_column("Table 4", f"{dataset} / IG {side}") for side in "PR")
        above = sum(p[model] > r[model] for model in p)
        found.append(
            Check("Table 4", f"rows with precision above recall, {dataset}", len(p), above, 0, "the caption's claim")
        )
    f1 = _column("Table 3", "Synthetic / IG F1")
    p, r = (_column("Table 4", f"Synthetic / IG {side}") for side in "PR")
    for model in ("GPT-OSS-120B", "GPT-5", "DeepSeek-R1"):
        harmonic = 2 * p[model] * r[model] / (p[model] + r[model])
        remark = "the median of F1 is not the F1 of medians: no error, but a sign that F1 is made per user"
        found.append(Check("Tables 3, 4", f"F1 of the medians, {model} on Synthetic", f1[model], harmonic, 0.1, remark))
    return found


def _survey() -> list[Check]:
    p, r = (_column("Table 5", f"Proposed Metrics / IG {side}") for side in "PR")
    above = sum(p[model] > r[model] for model in p)
    found = [
        Check("Table 5", "printed rows with precision above recall", len(p) - 1, above, 0, "Qwen3-VL-235B excepted")
    ]
    elo, f1 = _column("Table 6", "Arena IF Elo"), _column("Table 6", "Median IG F1 (%)")
    rho = spearman(list(elo.values()), [f1[model] for model in elo])
    found.append(
        Check("Table 6", "Spearman of Elo and IG F1, printed rows", None, rho, remark="six rows, two pairs tied")
    )
    return found


def _failures() -> list[Check]:
    imp, exp, negative = (_column("Table 7", name) for name in ("Ins. Imp+", "Ins. Exp+", "Exc. Neg"))
    remark = "above 0: breaks the OR rule, unless a signal that a data set lacks is never flagged"
    return [
        Check("Table 7", f"unverified with enough of one positive signal, beyond Exc. Neg: {model}", 0,
              max(100 - min(imp[model], exp[model]) - negative[model], 0), 0.1, remark)
        for model in imp
    ]  # fmt: skip


def _fidelity() -> list[Check]:
    mean = sum(_column("Table 10", "Syn. Mean").values())
    remark = "the means fit users without a type left out"
    return [Check("Table 10", "engagements per user of the released rows (4,214,059 of 1,000 users)", mean, 4214.06, 1,
                  remark)]  # fmt: skip


def _coverage() -> list[Check]:
    covered, share = _column("Table 11", "Covered"), _column("Table 11", "Cov. %")
    found = [Check("Table 11", f"coverage of {m}", share[m], 100 * n / 325, 0.051) for m, n in covered.items()]
    for label, n in (("50%", 33), ("80%", 96)):
        printed = 100 * value("Figure 7", "caption", f"categories that hold {label} of interests")
        found.append(
            Check("Figure 7", f"{n} of 325 categories hold {label}", printed, 100 * n / 325, 0.051, "fits 326, not 325")
        )
        found.append(Check("Figure 7", f"{n} of 326 categories hold {label}", printed, 100 * n / 326, 0.051))
    return found


def _context() -> list[Check]:
    found = []
    for length in (50, 100, 150, 200):
        p, r = (100 * value("Table 14", f"IG {side} (%)", f"UIH Length {length}") for side in "PR")
        found.append(
            Check("Table 14", f"recall above precision at {length}, by", None, r - p, remark="against Table 4")
        )
    for name, gain in (("IG R", 10.8), ("IS", 3.9)):
        low, high = (100 * value("Table 14", f"{name} (%)", f"UIH Length {length}") for length in (50, 200))
        found.append(Check("Table 14", f"gain of {name} from 50 to 200", gain, high - low, 0.11))
    return found


def _oracles() -> list[Check]:
    count, share = _column("Table 15", "Count"), _column("Table 15", "%")
    all_seven = OFFICIAL_PAIRS - sum(count.values())
    total = sum(int(k) * n for k, n in count.items()) + 7 * all_seven
    verified, sole = _column("Table 16", "Verified"), _column("Table 16", "Sole provider")
    part = _column("Table 16", "% oracle")
    consensus = sum(n for k, n in count.items() if int(k) >= 3) + all_seven
    found = [Check("Table 15", f"share verified by {k}", share[k], 100 * n / OFFICIAL_PAIRS, 0.051)
             for k, n in count.items()]  # fmt: skip
    found += [
        Check("Table 15", "pairs verified by all 7, the cut row", None, all_seven, remark="1.3 % of the oracle"),
        Check("Table 15", "caption: share verified by 3 or more", 36.8, 100 * consensus / OFFICIAL_PAIRS, 0.051,
              "36.74: the caption rounds up; the rounded rows add up to 36.7 too"),
        Check("Tables 15, 16", "verified pairs of the model that is cut", None, total - sum(verified.values()),
              remark="from the sum over k of k times the count; below the last printed row, and above the pairs that "
              "all 7 verify, as it must be"),
        Check("Tables 15, 16", "sole-provider pairs of the model that is cut", None, count["1"] - sum(sole.values()),
              remark="0.6 % of the oracle; below the last printed row, as it must be"),
    ]  # fmt: skip
    found += [Check("Table 16", f"% oracle of {model}", part[model], 100 * n / OFFICIAL_PAIRS, 0.051)
              for model, n in sole.items()]  # fmt: skip
    return found


def _annotators() -> list[Check]:
    found = []
    kappas = [k for c in ("A2", "A3", "A4") for k in _column("Table 17", f"IG / {c}").values()]
    mean = sum(kappas) / len(kappas)
    found.append(Check("Table 17", "mean pairwise kappa, IG", 0.52, mean, 0.011))
    splits = {task: _column("Table 19", task) for task in ("IG", "IS")}
    for task, own in splits.items():
        disagree = sum(100 - agree for agree in _column("Table 18", f"{task} / Agree%").values())
        three, two = own["3-1 split"], own["2-2 split"]
        found += [
            Check("Table 19", f"levels add up, {task}", 100, sum(own.values()), 0.11),
            Check("Tables 18, 19", f"disagreements, 2-2 splits left out, {task}", disagree,
                  100 * three / (100 - two), 0.3, "what a majority of 3/4 says"),
            Check("Tables 18, 19", f"disagreements, 2-2 splits counted twice, {task}", disagree, three + 2 * two, 0.3,
                  "what the page did"),
        ]  # fmt: skip
    return found


def _thresholds() -> list[Check]:
    found = []
    base = _column("Table 21", "Base")
    for other in ("Lenient", "Strict"):
        own = _column("Table 21", other)
        ranks = [[sorted(c.values(), reverse=True).index(c[m]) + 1 for m in base] for c in (base, own)]
        squares = sum((x - y) ** 2 for x, y in zip(*ranks, strict=True))
        found.append(
            Check("Tables 21, 22", f"rho of IG F1, Base vs {other}, if the cut model keeps its place",
                  value("Table 22", "IG F1", f"Base vs {other}"), 1 - 6 * squares / (7 * 48), 0.0006)
        )  # fmt: skip
    printed = value("Table 22", "IG P", "Base vs Lenient")
    nearest = 1 - round((1 - printed) * 28) / 28
    found.append(
        Check("Table 22", "rho of IG P, Base vs Lenient, is one of 7 untied models", printed, nearest, 0.0006,
              "without ties rho is a multiple of 1/28: two models are tied")
    )  # fmt: skip
    return found


def _costs() -> list[Check]:
    found = []
    for column, scale in (("Prompts", 0), ("Input tok.", 5e4), ("Output tok.", 5e4)):
        for table, tolerance in (("Table 24", 5 * scale + 1e5 * bool(scale)), ("Table 25", 2e7 if scale else 0)):
            own = _column(table, column)
            total = own.pop("Total")
            slack = tolerance if table == "Table 24" or column != "Output tok." else 2e5
            found.append(
                Check(table, f"rows add up, {column}", total, sum(own.values()), slack,
                      "the caption calls the rows rounded estimates" if table == "Table 25" and scale else "")
            )  # fmt: skip
    passes = _column("Table 26", "H100-hours")
    total = next(n for name, n in passes.items() if name.startswith("Total"))
    found.append(Check("Table 26", "passes add up", total, sum(passes.values()) - total, 0))
    interests = _column("Table 27", "Generated interests")
    hours = _column("Table 27", "Benchmark computation H100-hr")
    rate = sum(hours.values()) / sum(interests.values())
    found += [Check("Table 27", f"hours follow interests, {model}", n, rate * interests[model], 1)
              for model, n in hours.items()]  # fmt: skip
    found += [
        Check("Table 27", "printed rows of 760 hours", 760, sum(hours.values()), 0,
              "the two rows that are cut hold 260 hours, about 165,000 interests"),
        Check("Tables 11, 27", "distinct interests of DeepSeek-R1 within its generated ones",
              interests["DeepSeek-R1"], max(78534, interests["DeepSeek-R1"]), 0, "78,534 distinct of 35,550"),
    ]  # fmt: skip
    return found


_PARTS: tuple[Callable[[], list[Check]], ...] = (
    _scores, _survey, _failures, _fidelity, _coverage, _context, _oracles, _annotators, _thresholds, _costs,
)  # fmt: skip


@analysis("arithmetic", "The page's numbers against each other")
def arithmetic(runs: Runs, options: Options) -> Analysis:
    """Checks of the published tables, each with its residual."""
    rows: list[dict[str, Any]] = [
        {"place": check.place, "what": check.what, "printed": check.printed, "computed": check.computed,
         "residual": check.residual, "tolerance": check.tolerance, "holds": check.holds,
         "note": check.remark}
        for check in checks()
    ]  # fmt: skip
    n, n_checked = sum(check.holds for check in checks()), sum(check.printed is not None for check in checks())
    n -= len(rows) - n_checked
    return Analysis(
        "arithmetic",
        "The page's numbers against each other",
        f"Two ways to the same number, and what is left between them. {n} of "
        f"{n_checked} checks hold within rounding; the other rows are what a table's cut rows must hold.",
        {"checks": typed(rows)},
        layouts={"checks": Layout(("place", "what"), (), ("printed", "computed", "residual", "holds", "note"))},
        policy={"tolerance": "what rounding of printed numbers allows", "official_pairs": OFFICIAL_PAIRS},
    )
