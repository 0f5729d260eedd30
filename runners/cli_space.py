"""The commands of the leaderboard: ``gistbench space``, ``hub push-results`` and ``hub push-space``."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..hf_datasets.errors import ConfigError

__all__ = ["push_results_command", "push_space_command", "space"]

out = Console()


def space(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="scored suite folders or run folders", show_default=False)
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", help="where the results folder is made, or lies", show_default=False)
    ] = None,
    qrels: Annotated[
        list[Path] | None, typer.Option("--qrels", help="tables of `gistbench qrels experiments`", show_default=False)
    ] = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="of 127.0.0.1")] = 7860,
    build_only: Annotated[bool, typer.Option("--build-only", help="make the results folder and stop")] = False,
) -> None:
    """Show runs in the leaderboard, on this machine.

    Examples:

        gistbench space runs/demo

        gistbench space --results results
    """
    import tempfile

    from .results import ResultsFolder

    if not runs and results is None:
        raise ConfigError("Nothing to show: name suite folders, or a results folder with --results.")
    with tempfile.TemporaryDirectory(prefix="gistbench-space-") as work:
        folder = ResultsFolder(results or Path(work) / "results")
        for path in runs or ():
            folder.add(path)
        for path in qrels or ():
            folder.add_qrels(path)
        if runs or qrels or not (folder.path / "index.parquet").exists():
            if not runs and not (folder.path / "records").exists():
                raise ConfigError(f"{folder.path} is no results folder: it has no records.")
            table = folder.build()
            out.print(f"{table.num_rows} rows in {escape(str(folder.path))}/index.parquet.", soft_wrap=True)
        if build_only:
            return
        _serve(folder.path.resolve(), port)


def _serve(results: Path, port: int) -> None:
    """Run the Space as the Hub does: as a script in its own folder."""
    try:
        import gradio  # noqa: F401
    except ImportError as error:
        raise ConfigError("The leaderboard needs gradio: pip install 'gistbench[space]'.") from error
    folder = Path(str(files("gistbench.space")))
    environment = {
        **os.environ,
        "GISTBENCH_RESULTS": str(results),
        "GISTBENCH_METRICS": str(files("gistbench.metrics")),
        "GRADIO_ANALYTICS_ENABLED": "False",
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "GRADIO_SERVER_PORT": str(port),
    }
    out.print(f"http://127.0.0.1:{port}  (Ctrl-C ends it)")
    with subprocess.Popen([sys.executable, str(folder / "app.py")], cwd=folder, env=environment) as server:
        try:
            status = server.wait()
        except KeyboardInterrupt:
            server.terminate()
            return
    if status:
        raise ConfigError(f"The leaderboard ended with status {status}; its own message stands above.")


def push_results_command(
    suites: Annotated[
        list[Path] | None, typer.Argument(help="scored suite folders; none: make the index anew", show_default=False)
    ] = None,
    repo: Annotated[str, typer.Option("--repo", help="namespace/name of the data set")] = "gistbench/results",
    qrels: Annotated[
        list[Path] | None, typer.Option("--qrels", help="tables of `gistbench qrels experiments`", show_default=False)
    ] = None,
    new_oracle: Annotated[
        bool, typer.Option("--new-oracle", help="score submissions against these suites' oracles from now on")
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="make the data set private, if it is made")] = False,
) -> None:
    """Put scored runs among the results that the leaderboard shows.

    Data of one's own is refused; of a data set that may not be passed on, only scores are pushed. Without suites the
    index is made anew, as after a submission was merged. The token is that of `hf auth login` or HF_TOKEN.

    Examples:

        gistbench hub push-results runs/demo --repo gistbench/results
    """
    from .space_hub import push_results
    from .suitefolder import run_folders

    # What is wrong here is told before the Hub is asked.
    for suite in suites or ():
        run_folders(suite)
    for folder in qrels or ():
        if not folder.is_dir():
            raise ConfigError(f"--qrels {folder}: there is no such folder. `gistbench qrels experiments` writes it.")
    _say(push_results(suites or (), repo, qrels=qrels or (), new_oracle=new_oracle, private=private))


def push_space_command(
    repo: Annotated[str, typer.Option("--repo", help="namespace/name of the Space")] = "gistbench/leaderboard",
    results: Annotated[str, typer.Option("--results", help="the data set that it shows")] = "gistbench/results",
    private: Annotated[bool, typer.Option("--private", help="make the Space private, if it is made")] = False,
) -> None:
    """Publish the leaderboard as a Space.

    To let it open pull requests for submissions, give the Space a secret HF_TOKEN that may write to the results.

    Examples:

        gistbench hub push-space --repo gistbench/leaderboard --results gistbench/results
    """
    from .space_hub import push_space

    _say(push_space(repo, results=results, private=private))


def _say(push: "HubPush") -> None:  # type: ignore[name-defined]  # noqa: F821
    done = "pushed" if push.changed else "nothing to push"
    out.print(f"{escape(push.repo)}: {done}, commit {push.commit[:12]}  {push.url}", soft_wrap=True)
