"""The whole report: analyses computed, figures laid out, everything written to a folder. No model is called."""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from glob import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...hf_datasets._atomic import replacing
from ...hf_datasets.errors import ConfigError, StoreError
from ..runfolder import read_json, write_json, write_text
from .analysis import Analysis, Options, run_analyses
from .export import latex, markdown, markdown_text, plain, sheet, sidecar, to_csv, to_parquet
from .figures import draw
from .figures_marks import Drawing
from .figures_plotly import INSTALL, figure_json, plotly_figure
from .figures_static import static_images
from .html import page
from .load import Runs

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

__all__ = ["FORMAT", "Report", "build_report", "versions_of"]

logger = logging.getLogger(__name__)

FORMAT = 1
INDEX = "report.json"
TABLE_FORMS = ("csv", "md", "parquet", "tex")
FIGURE_FORMS = ("json", "dark.json", "svg", "png")


@dataclass(frozen=True)
class Report:
    """Computed analyses, as data frames, figures and files."""

    analyses: tuple[Analysis, ...]
    versions: Mapping[str, Any]
    """Of this package, and for each run its data, models, prompts and conditions."""

    @property
    def tables(self) -> "dict[str, pd.DataFrame]":
        """All data frames by ``analysis.table``."""
        return {f"{one.id}.{name}": frame for one in self.analyses for name, frame in one.tables.items()}

    @cached_property
    def drawings(self) -> dict[str, Drawing]:
        """All figures that have something to draw, laid out, by ``analysis`` or ``analysis.figure``."""
        found = {}
        for one in self.analyses:
            about = {"analysis": one.id, "policy": plain(one.policy), "versions": plain(self.versions)}
            for name, spec in one.figures.items():
                drawing = draw(spec, one.tables, about)
                if drawing is not None:
                    found[name if name == one.id else f"{one.id}.{name}"] = drawing
        return found

    def figures(self, theme: str = "light") -> "dict[str, go.Figure]":
        """Return all figures as Plotly's.

        Raises:
            ConfigError: the extra `report` is not installed.
        """
        return {name: plotly_figure(drawing, theme) for name, drawing in self.drawings.items()}

    def html(self) -> str:
        """Return the report as one HTML page that needs nothing else.

        Raises:
            ConfigError: the extra `report` is not installed.
        """
        return page(self.analyses, self.drawings, self.versions)

    def markdown(self) -> str:
        """Return the report as Markdown, with figures as files beside it."""
        lines = ["# gistbench report", ""]
        for one in self.analyses:
            if one.missing:
                continue
            lines += [f"## {markdown_text(one.title)}", "", markdown_text(one.caption), ""]
            for name in self._figures_of(one):
                drawing = self.drawings[name]
                lines += [f"![{markdown_text(drawing.title)}](figures/{name}.svg)", ""]
                lines += [markdown_text(drawing.caption), ""]
            for name, frame in one.tables.items():
                if len(frame) and not (one.id == "summary" and name == "sentences"):
                    lines += [
                        markdown(sheet(frame, one.layouts.get(name), 50)),
                        f"All of it: `tables/{one.id}.{name}.csv`",
                        "",
                    ]
            lines += [f"- {markdown_text(note)}" for note in one.notes]
            lines += ["", f"Policy: `tables/{one.id}.json`", ""]
        missing = [one for one in self.analyses if one.missing]
        lines += ["## Not in this report", ""] if missing else []
        lines += [f"- {markdown_text(one.title)}: {markdown_text(one.missing)}" for one in missing]
        return "\n".join([*lines, ""])

    def write(self, folder: Path | str) -> Path:
        """Write the report: ``report.html``, ``report.md``, tables and figures; ``report.json``, the index.

        The index goes first, with all names and ``complete`` false, so that what a killed report left can be replaced;
        it is written once more at the end.

        Args:
            folder: a new one, or one that holds an earlier report, which is replaced.

        Returns:
            The path of the HTML page.

        Raises:
            StoreError: the folder holds something else.
            ConfigError: the extra `report` is not installed.
        """
        folder = Path(folder)
        require_libraries()
        planned = self._file_names()
        index = {
            "format": FORMAT,
            "complete": False,
            "versions": plain(self.versions),
            "analyses": [
                {"id": one.id, "title": one.title, "missing": one.missing, "tables": list(one.tables),
                 "figures": self._figures_of(one)}
                for one in self.analyses
            ],
            "files": planned,
        }  # fmt: skip

        def write(name: str, content: str | bytes) -> None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                write_text(path, content)
            else:
                with replacing(path) as temporary:
                    temporary.write_bytes(content)

        try:
            earlier = _earlier_files(folder)
            write_json(folder / INDEX, {**index, "files": sorted({*planned, *earlier})})
            _remove(folder, [*planned, *earlier, INDEX])
            write_json(folder / INDEX, index)
            for one in self.analyses:
                if one.missing:
                    continue
                about = sidecar(one, self.versions)
                write(f"tables/{one.id}.json", _json(about))
                for name, frame in one.tables.items():
                    stem = f"tables/{one.id}.{name}"
                    printed = sheet(frame, one.layouts.get(name))
                    head = _header(one, self.versions)
                    write(f"{stem}.csv", to_csv(frame))
                    write(f"{stem}.parquet", to_parquet(frame, about))
                    write(f"{stem}.md", f"<!--\n{_commented(head)}\n-->\n\n{markdown(printed)}")
                    write(f"{stem}.tex", latex(printed, f"{one.title}. {one.caption}", f"{one.id}-{name}", head))
            for name, drawing in self.drawings.items():
                logger.debug("drawing %s", name)
                write(f"figures/{name}.json", figure_json(drawing))
                write(f"figures/{name}.dark.json", figure_json(drawing, "dark"))
                for form, content in static_images(drawing).items():
                    write(f"figures/{name}.{form}", content)
            write("report.md", self.markdown())
            write("report.html", self.html())
            write_json(folder / INDEX, {**index, "complete": True})
        except OSError as error:
            raise StoreError(f"{folder} cannot be written to: {error}. Name another --out.") from error
        return folder / "report.html"

    def _file_names(self) -> list[str]:
        """Return the names of all files but the index."""
        names = ["report.html", "report.md"]
        for one in self.analyses:
            if not one.missing:
                names.append(f"tables/{one.id}.json")
                names += [f"tables/{one.id}.{name}.{form}" for name in one.tables for form in TABLE_FORMS]
        names += [f"figures/{name}.{form}" for name in self.drawings for form in FIGURE_FORMS]
        return sorted(names)

    def _figures_of(self, one: Analysis) -> list[str]:
        return [name for name in self.drawings if name == one.id or name.startswith(f"{one.id}.")]


def build_report(
    runs: Iterable[Path | str] | Runs,
    which: Iterable[str] | None = None,
    options: Options | None = None,
    *,
    common_oracle: bool = False,
) -> Report:
    """Compute analyses of scored runs, ready to be shown or written. No model is called.

    Args:
        runs: paths of suite folders and run folders, or opened runs.
        which: ids of analyses; None for all.
        options: files and settings besides.
        common_oracle: score runs that differ in their oracles once more, against the union of these.

    Raises:
        ConfigError: there is no such analysis, or an option cannot be used.
        StoreError: runs that do not compare, or cannot be read.
    """
    opened = runs if isinstance(runs, Runs) else Runs.open(runs, common_oracle=common_oracle)
    return Report(tuple(run_analyses(opened, which, options)), versions_of(opened))


def require_libraries() -> None:
    """Make sure that figures can be drawn, before time is spent.

    Raises:
        ConfigError: the extra `report` is not installed.
    """
    if absent := [name for name in ("plotly", "matplotlib") if find_spec(name) is None]:
        raise ConfigError(f"The report's figures need {' and '.join(absent)}. {INSTALL}")


def versions_of(runs: Runs) -> dict[str, Any]:
    """Return what a report stands on: versions of this package, and of each run's data, models and prompts."""
    described = []
    for run in runs.all:
        manifest = run.manifest
        described.append(
            {
                "folder": run.path.name,
                "model": run.model,
                "revision": manifest["candidate"]["revision"],
                "dataset": run.dataset,
                "judge": run.judge,
                **run.conditions,
                "prompts": {
                    name: found["version"]
                    for phase in ("extract", "judge")
                    for name, found in manifest["phases"][phase].get("prompts", {}).items()
                },
                "modules": {
                    name: run.score["policy"][name].get("module_version", "") for name in ("ig", "is")
                },
            }
        )  # fmt: skip
    return {"gistbench": _installed("gistbench"), "plotly": _installed("plotly"), "runs": described}


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _header(one: Analysis, versions: Mapping[str, Any]) -> str:
    """Return a few lines on what a table stands on, for formats without a place for it."""
    policy = "\n".join(f"policy {name}: {_json(value, indent=None)}" for name, value in plain(one.policy).items())
    lines = [f"{one.id}: {one.title}", f"gistbench {versions.get('gistbench', '')}", policy]
    lines += [f"run {_json(run, indent=None)}" for run in plain(versions.get("runs", []))]
    return "\n".join(line for line in lines if line.strip())


def _json(value: Any, indent: int | None = 2) -> str:
    import json

    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + ("\n" if indent else "")


def _commented(text: str) -> str:
    """Return a text that cannot end an HTML comment."""
    return re.sub("-(?=-)", "- ", text)


def _earlier_files(folder: Path) -> list[str]:
    """Return the names of an earlier report's files, whole or not.

    Raises:
        StoreError: the folder holds something else.
    """
    if not folder.exists():
        return []
    # What a writer that was killed at its first file leaves is no content.
    if not folder.is_dir() or (
        any(not path.name.startswith(f".{INDEX}.") for path in folder.iterdir()) and not (folder / INDEX).exists()
    ):
        raise StoreError(f"{folder} is not empty and holds no earlier report. Name another --out.")
    if not (folder / INDEX).exists():
        return []
    index = read_json(folder / INDEX)
    files = index.get("files", []) if isinstance(index, dict) else []
    return [name for name in map(str, files) if folder.resolve() in (folder / name).resolve().parents]


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove a report's files but the index, and what a killed writer left beside them."""
    for name in names:
        path = folder / name
        if name != INDEX:
            path.unlink(missing_ok=True)
        for left in path.parent.glob(f".{escape(path.name)}.????????"):
            left.unlink(missing_ok=True)
