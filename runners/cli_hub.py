"""The commands ``gistbench hub ...``: the way to the Hub, and metrics without one."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..hf_datasets.errors import ConfigError
from .cli_datasets import read_options
from .cli_rejudge import rejudge_command

__all__ = ["hub_app"]

hub_app = typer.Typer(help="To the Hub, and metrics without it.", no_args_is_help=True)

out = Console()


@hub_app.callback()
def _group() -> None:
    """To the Hub, and metrics without it."""


hub_app.command("rejudge")(rejudge_command)


@hub_app.command("push-dataset")
def push_dataset(
    configs: Annotated[list[str], typer.Argument(help="data sets of `gistbench datasets list`", show_default=False)],
    repo: Annotated[str, typer.Option("--repo", help="namespace/name of the dataset repository")],
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            help="the files that a data set is made from: PATH with one data set, CONFIG=PATH with several",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="a parameter of a data set: NAME=VALUE with one data set, CONFIG.NAME=VALUE with several",
            show_default=False,
        ),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="make the repository private, if it is made")] = False,
    tag: Annotated[str | None, typer.Option("--tag", help="a name for the revision", show_default=False)] = None,
) -> None:
    """Push data sets as configs of one dataset repository: Parquet files and the card, in one commit.

    The repository keeps the configs that it has; pushing the same again makes no commit. What a licence forbids to pass
    on is refused. The token is that of `hf auth login` or HF_TOKEN.

    Examples:

        gistbench hub push-dataset demo planted --repo gistbench/gistbench --tag v0.1.0
    """
    from ..hf_datasets.folder import build_config
    from ..hf_datasets.hub import push_configs, require_redistributable

    names = list(dict.fromkeys(configs))
    require_redistributable(names)
    sources = _by_config(source, names)
    options = _options_by_config(option, names)
    built = [build_config(name, source=sources.get(name), parameters=options[name]) for name in names]
    push = push_configs(built, repo, private=private, tag=tag)
    if push.changed:
        n_rows = sum(config.entry.n_rows for config in built)
        out.print(f"Pushed {escape(', '.join(names))}: {n_rows:,} rows, commit {push.commit[:12]}.", soft_wrap=True)
    else:
        out.print(f"Nothing to push: {escape(repo)} holds the same at commit {push.commit[:12]}.", soft_wrap=True)
    if tag:
        out.print(f"Tag: {escape(tag)}")
    out.print(
        f'{escape(push.url)}\nLoad it: datasets.load_dataset("{escape(repo)}", "{escape(names[0])}")', soft_wrap=True
    )


_METRICS = typer.Argument(help="metrics, such as ig; none: all", show_default=False)
_NAMESPACE = typer.Option("--repo-namespace", help="what stands before the slash in evaluate.load")


@hub_app.command("push-metrics")
def push_metrics_command(
    metrics: Annotated[list[str] | None, _METRICS] = None,
    namespace: Annotated[str, _NAMESPACE] = "gistbench",
    private: Annotated[bool, typer.Option("--private", help="make a Space private, if it is made")] = False,
) -> None:
    """Publish the metrics, each as a Space, so that evaluate.load("gistbench/ig") finds them.

    A Space that holds the same already gets no commit. The tag that `evaluate` asks for (v and its version) is moved
    along. The token is that of `hf auth login` or HF_TOKEN.

    Examples:

        gistbench hub push-metrics --repo-namespace my-organisation
    """
    from .metrics_hub import push_metrics

    for push in push_metrics(metrics or (), namespace=namespace, private=private):
        done = "pushed" if push.changed else "nothing to push"
        out.print(f"{push.repo}: {done}, commit {push.commit[:12]}, tag {push.tag}  {push.url}", soft_wrap=True)


@hub_app.command("install-metrics")
def install_metrics_command(
    metrics: Annotated[list[str] | None, _METRICS] = None,
    namespace: Annotated[str, _NAMESPACE] = "gistbench",
    uninstall: Annotated[bool, typer.Option("--uninstall", help="undo it")] = False,
) -> None:
    """Put the metrics where evaluate.load("gistbench/ig") finds them without a network, from any directory.

    They go into the modules cache of `evaluate` (HF_MODULES_CACHE). Where a Hub has them, it is still asked first;
    HF_EVALUATE_OFFLINE=1 spares the attempt.

    Examples:

        gistbench hub install-metrics
        gistbench hub install-metrics --uninstall
    """
    from .metrics_hub import install_metrics, uninstall_metrics

    if uninstall:
        removed = uninstall_metrics(metrics or (), namespace=namespace)
        out.print(f"Removed: {escape(', '.join(removed))}" if removed else "Nothing was installed.", soft_wrap=True)
        return
    for name, folder in install_metrics(metrics or (), namespace=namespace).items():
        out.print(f'evaluate.load("{escape(namespace)}/{name}")  {escape(str(folder))}', soft_wrap=True)


def _by_config(values: list[str] | None, names: list[str]) -> dict[str, Path]:
    """Read --source: a path where there is one config, else CONFIG=PATH."""
    sources: dict[str, Path] = {}
    for value in values or ():
        name, equals, path = value.partition("=")
        if equals and name in names:
            sources[name] = Path(path)
        elif len(names) == 1:
            sources[names[0]] = Path(value)
        else:
            raise ConfigError(
                f"--source {value!r}: with several data sets, write CONFIG=PATH; CONFIG is one of {names}."
            )
    return sources


def _options_by_config(pairs: list[str] | None, names: list[str]) -> dict[str, dict[str, Any]]:
    """Read --option: NAME=VALUE where there is one config, else CONFIG.NAME=VALUE."""
    options: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in read_options(pairs).items():
        config, dot, name = key.partition(".")
        if dot and config in names:
            options[config][name] = value
        elif len(names) == 1:
            options[names[0]][key] = value
        else:
            raise ConfigError(f"--option {key!r}: with several data sets, write CONFIG.NAME=VALUE; CONFIG of {names}.")
    return options
