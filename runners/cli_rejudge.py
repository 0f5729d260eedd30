"""The command ``gistbench hub rejudge``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..hf_datasets.errors import ConfigError
from .cli_datasets import read_options
from .cli_options import (
    DATA,
    MODELS,
    OUTPUT,
    SPECIFICATION,
    Budget,
    Dataset,
    DatasetOption,
    Limit,
    MaxReasks,
    Profiles,
    RetryFailed,
    Source,
    Store,
    TaxonomyName,
    TaxonomySource,
    option,
)
from .cli_session import session

if TYPE_CHECKING:
    from .rejudge import Rejudged

__all__ = ["rejudge_command"]

out = Console()
err = Console(stderr=True)

RECORD_HELP = "the submitted record, such as records/demo/MODEL@REVISION/JUDGE+self-judged (default: the only one)"
REVISION_HELP = "where the record lies on the Hub: a branch, a commit, or a pull request such as refs/pr/3"


def rejudge_command(
    results: Annotated[
        str, typer.Argument(help="a results folder, or the name of the data set on the Hub", show_default=False)
    ],
    judge: Annotated[str, option(f"the model that judges{SPECIFICATION}", MODELS, "--judge", "-j")],
    output: Annotated[
        Path, option("the suite folder to work in; the same folder again goes on", OUTPUT, "--output", "-o")
    ],
    record: Annotated[str | None, option(RECORD_HELP, DATA, "--record")] = None,
    revision: Annotated[str | None, option(REVISION_HELP, DATA, "--revision")] = None,
    dataset: Dataset = None,
    source: Source = None,
    dataset_option: DatasetOption = None,
    taxonomy: TaxonomyName = None,
    taxonomy_source: TaxonomySource = None,
    profiles: Profiles = None,
    max_reasks: MaxReasks = None,
    store: Store = None,
    retry_failed: RetryFailed = False,
    budget: Budget = None,
    limit: Limit = None,
    pull_request: Annotated[
        bool, option("open a pull request with the new record and the comparison", OUTPUT, "--pull-request")
    ] = False,
    push: Annotated[bool, option("put the new record in place and make the index anew", OUTPUT, "--push")] = False,
) -> None:
    """Judge a submission's interests again, with a judge of yours, so that its row is no longer self-judged.

    The interests stay as they are. Users, settings and oracle are those of the measured record on the same data set, as
    it stands on main whatever --revision says; of this machine come the data set (--source, as of `gistbench run`) and
    the judge. Shown is how far the submitted judgements agree with the new ones, and what becomes of the scores.
    Without --push or --pull-request nothing but the suite folder is written. The token is that of `hf auth login` or
    HF_TOKEN.

    Examples:

        gistbench hub rejudge gistbench/results --revision refs/pr/3 -o runs/rejudged --judge JUDGE --pull-request

        gistbench hub rejudge gistbench/results -o runs/rejudged --source ml-latest-small
            --judge meta-llama/Llama-3.3-70B-Instruct?tensor_parallel_size=4 --push
            --record records/movielens/org--model@1/judge@1+self-judged

        gistbench hub rejudge results/ -o runs/rejudged --judge lexical/overlap --push
    """
    import tempfile

    from .rejudge import find_submission, rejudge
    from .results import ResultsFolder

    folder = Path(results) if Path(results).is_dir() else None
    if push and pull_request:
        raise ConfigError("--push changes the results at once, --pull-request proposes the change: give one of them.")
    if folder is not None and (pull_request or revision is not None):
        raise ConfigError(f"{results} is a folder here: it has no revisions and takes no pull requests. Use --push.")
    changes: dict[str, Any] = {
        "dataset": dataset,
        "source": source,
        "dataset_options": read_options(dataset_option, flag="--dataset-option") or None,
        "taxonomy": taxonomy,
        "taxonomy_source": taxonomy_source,
        "profiles": profiles,
        "max_reasks": max_reasks,
    }
    with tempfile.TemporaryDirectory(prefix="gistbench-rejudge-") as work:
        if folder is not None:
            submission, commit = find_submission(folder, record), ""
        else:
            from .space_hub import fetch_submission

            submission, commit = fetch_submission(results, Path(work), record, revision=revision)
        options: dict[str, Any] = {"store": store, "retry_failed": retry_failed}
        with session(err, output, budget, limit) as stopping:
            rejudged = rejudge(submission, output, judge=judge, changes=changes, revision=commit, **options, **stopping)
        _show(rejudged)
        if folder is not None and push:
            found = ResultsFolder(folder)
            rejudged.put(found)
            found.build()
            out.print(f"In place: {escape(str(folder / rejudged.place))}; the index is made anew.", soft_wrap=True)
        elif push or pull_request:
            from .space_hub import push_rejudged

            pushed = push_rejudged(rejudged, results, pull_request=pull_request)
            said = "Proposed" if pushed.is_proposal else "Pushed" if pushed.changed else "Nothing to push"
            out.print(f"{said}, commit {pushed.commit[:12]}: {escape(pushed.url)}", soft_wrap=True)
        else:
            out.print("Nothing but the suite folder was written: --push or --pull-request puts the record in place.")


def _show(rejudged: "Rejudged") -> None:
    scores, agreement = rejudged.rows()
    table = Table("Metric", "Submitted", "Re-judged", "Difference of means", title="Medians in %, with 95 % intervals")
    other = Table("Judgements that both made", "n", "The same %", "Kappa", title="Agreement")
    for lines, shown in ((scores, table), (agreement, other)):
        for line in lines:
            shown.add_row(*map(escape, line))
        for column in shown.columns[1:]:
            column.justify = "right"
        out.print(shown)
    out.print(f"Judged again by {escape(str(rejudged.judge))}: {escape(str(rejudged.run.path))}", soft_wrap=True)
