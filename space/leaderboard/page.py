"""The page: tabs, controls and what happens when one is used. What a reader chose is a `View`, kept in the address."""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.components.plot import PlotData

from .data import METRICS, Snapshot, SourceError, Store
from .intake import SubmissionError
from .models import compared, evidence, model_choices, model_page, user_choices
from .pictures import PICTURES, distribution, draw
from .qrels import expansions, qrels_page, qrels_pictures
from .submit import Submissions
from .text import escape
from .view import COLUMNS, LAYOUTS, ORIGINS, SIZES, WEIGHTS, View, chosen_rows, leaderboard

__all__ = ["CSS", "build", "client_of", "theme"]

HERE = Path(__file__).parent
CSS = (HERE / "page.css").read_text(encoding="utf-8")
AWAY = "There are no results to show yet."
CITATION = "gistbench leaderboard, results at revision {revision}, {day}. URL"

# Presses on headings and names inside a table become events of the component that holds it.
PRESSES = """
element.addEventListener('click', (event) => {
  const sort = event.target.closest('button[data-sort]');
  if (sort) { trigger('sort', {name: sort.dataset.sort}); return; }
  const model = event.target.closest('button[data-model]');
  if (model) { trigger('pick', {name: model.dataset.model}); }
});
"""
# The address follows what the reader does, without a new page; what the framework itself put there stays.
ADDRESS = """
(query, citation) => {
  const kept = [...new URLSearchParams(location.search)].filter(([name]) => name.startsWith('__'));
  const all = [new URLSearchParams(kept).toString(), query].filter(Boolean).join('&');
  const place = location.pathname + (all ? '?' + all : '');
  if (place !== location.pathname + location.search) { history.replaceState(history.state, '', place); }
  return citation.replace('URL', location.origin + location.pathname + (query ? '?' + query : ''));
}
"""


def theme() -> Any:
    """Return the theme: fonts of the reader's machine, none from elsewhere."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "sans-serif"]
    return gr.themes.Default(font=fonts, font_mono=["ui-monospace", "monospace"], primary_hue="blue")


def build(store: Store, submissions: Submissions) -> gr.Blocks:
    """Build the page over a store of results."""
    return _Page(store, submissions).blocks


def client_of(request: Any) -> str:
    """Return the address of whoever asks.

    A Space stands behind the Hub's proxy, which adds whom it heard to the end of X-Forwarded-For: what stands before is
    the reader's own word. Elsewhere, anybody may write that header.
    """
    if os.environ.get("SPACE_ID"):
        forwarded = request.headers.getlist("x-forwarded-for")
        last = forwarded[-1].rpartition(",")[2].strip() if forwarded else ""
        if last:
            return str(last)
    return request.client.host if request.client else "unknown"


class _Page:
    """The components, by the field of the view that they set."""

    def __init__(self, store: Store, submissions: Submissions) -> None:
        self.store, self.submissions = store, submissions
        self.control: dict[str, Any] = {}
        with gr.Blocks(
            title="gistbench leaderboard", analytics_enabled=False, delete_cache=(3600, 3600)
        ) as self.blocks:
            gr.HTML(
                "<h1>gistbench</h1><p>Which model understands people best, how sure that is, and why.</p>", padding=True
            )
            self.notice = gr.HTML(self._notice(), elem_id="notice")
            self.control["tab"] = gr.State("leaderboard")
            self.query = gr.Textbox(visible="hidden", label="address", elem_id="query")
            self.citation = gr.Textbox(visible="hidden", label="citation")
            # A tab announces itself while the page opens, before the address has been read: "" until it has.
            self.ready = gr.Textbox("", visible="hidden", label="ready")
            with gr.Tabs(elem_id="tabs") as self.tabs:
                self.tab = {
                    "leaderboard": self._leaderboard_tab(),
                    "pictures": self._pictures_tab(),
                    "model": self._model_tab(),
                    "compare": self._compare_tab(),
                    "qrels": self._qrels_tab(),
                    "submit": self._submit_tab(),
                }
                with gr.Tab("About", id="about") as self.tab["about"]:
                    gr.Markdown((HERE / "about.md").read_text(encoding="utf-8"))
            self._wire()

    # --- the tabs ---------------------------------------------------------------------------------------------------

    def _leaderboard_tab(self) -> Any:
        c = self.control
        with gr.Tab("Leaderboard", id="leaderboard") as tab:
            with gr.Row(elem_classes="filters"):
                c["q"] = gr.Textbox(label="Search", placeholder="model, revision or data set", scale=2, max_length=120)
                c["data"] = gr.Dropdown([("all", "")], value="", label="Data set", allow_custom_value=True)
                c["judge"] = gr.Dropdown([("all", "")], value="", label="Judge", allow_custom_value=True)
                c["size"] = gr.Dropdown(_pairs(SIZES), value="", label="Size", filterable=False)
                c["weights"] = gr.Dropdown(_pairs(WEIGHTS), value="", label="Openness", filterable=False)
                c["origin"] = gr.Dropdown(_pairs(ORIGINS), value="", label="Origin", filterable=False)
            with gr.Accordion("Columns, order and layout", open=False):
                c["cols"] = gr.CheckboxGroup(
                    [(column.heading, name) for name, column in COLUMNS.items()], value=list(View.cols), label="Columns"
                )
                with gr.Row():
                    sorts = [("Rank", "rank"), ("Model", "model"), ("Data set", "dataset")]
                    sorts += [(column.heading, name) for name, column in COLUMNS.items()]
                    c["sort"] = gr.Dropdown(sorts, value="hm", label="Sort by", filterable=False)
                    c["up"] = gr.Checkbox(False, label="Smallest first")
                    c["layout"] = gr.Radio(_pairs(LAYOUTS), value="rows", label="Layout")
                    metrics = [(heading, name) for name, heading in METRICS.items()]
                    c["metric"] = gr.Dropdown(
                        metrics, value="hm", label="Metric (pictures and matrix)", filterable=False
                    )
            self.board = gr.HTML(js_on_load=PRESSES, elem_id="board")
            with gr.Row(elem_classes="below"):
                self.back = gr.Button("‹ Back", size="sm", min_width=80, scale=0)
                c["page"] = gr.Number(1, label="Page", minimum=1, precision=0, scale=0, min_width=90)
                self.forth = gr.Button("Next ›", size="sm", min_width=80, scale=0)
                self.count = gr.HTML(elem_id="count")
            self.cite = gr.Textbox(label="Cite this view", interactive=False, elem_id="cite")
        return tab

    def _pictures_tab(self) -> Any:
        with gr.Tab("Pictures", id="pictures") as tab:
            gr.HTML("<p>Of the rows that the leaderboard's filters leave.</p>")
            choices = [(title, name) for name, (title, _) in PICTURES.items()]
            self.control["picture"] = gr.Radio(choices, value="scatter", label="Picture")
            self.picture = gr.Plot(label="Figure", show_label=False, elem_id="picture")
            self.sentence = gr.HTML(elem_id="sentence")
        return tab

    def _model_tab(self) -> Any:
        with gr.Tab("Model", id="model") as tab:
            self.control["model"] = gr.Dropdown([], value="", label="Model", allow_custom_value=True, elem_id="model")
            self.page = gr.HTML(elem_id="modelpage")
            self.spread = gr.Plot(label="Scores by user", show_label=False, elem_id="spread")
            self.spread_sentence = gr.HTML()
            gr.HTML("<h3>Evidence</h3>")
            self.control["user"] = gr.Dropdown([], value="", label="User", allow_custom_value=True, elem_id="user")
            self.evidence = gr.HTML(elem_id="evidence")
        return tab

    def _compare_tab(self) -> Any:
        with gr.Tab("Compare", id="compare") as tab:
            with gr.Row():
                for name in ("a", "b"):
                    self.control[name] = gr.Dropdown(
                        [], value="", label=name.upper(), allow_custom_value=True, elem_id=f"compare_{name}"
                    )
            self.compared = gr.HTML(elem_id="compared")
        return tab

    def _qrels_tab(self) -> Any:
        with gr.Tab("Qrels expansion", id="qrels") as tab:
            self.expansion = gr.Dropdown([], label="Expansion", allow_custom_value=True, visible=False)
            self.bump = gr.Plot(visible=False, label="Places", show_label=False, elem_id="bump")
            self.bump_sentence = gr.HTML()
            self.popularity = gr.Plot(visible=False, label="Popularity", show_label=False, elem_id="popularity")
            self.popularity_sentence = gr.HTML()
            self.qrels = gr.HTML(elem_id="qrels")
        return tab

    def _submit_tab(self) -> Any:
        with gr.Tab("Submit", id="submit") as tab:
            gr.HTML(SUBMIT)
            self.files = gr.File(
                label="A zip file of a run folder, or its files",
                file_count="multiple",
                file_types=[".zip", ".parquet", ".json"],
                type="filepath",
                elem_id="files",
            )
            self.repo = gr.Textbox(
                label="Or a public data set on the Hub", placeholder="name/dataset/folder", max_length=300
            )
            self.check = gr.Button("Check", variant="primary", elem_id="check")
            self.verdict = gr.HTML(elem_id="verdict")
            self.checked = gr.State(None)
            self.open = gr.Button("Open a pull request with it", visible=False, elem_id="open")
            self.opened = gr.HTML(elem_id="opened")
        return tab

    # --- what happens ------------------------------------------------------------------------------------------------

    def _wire(self) -> None:
        names = list(self.control)
        controls = list(self.control.values())
        board = [self.notice, self.board, self.count, self.control["page"], self.query, self.citation]
        pictures = [self.picture, self.sentence, self.query, self.citation]
        model = [
            self.page,
            self.spread,
            self.spread_sentence,
            self.control["user"],
            self.evidence,
            self.query,
            self.citation,
        ]
        # Answered at once: waiting in the framework's queue would cost more than the answers do.
        common: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}

        def on(event: Callable[..., Any], run: Callable[..., Any], outputs: list[Any], **more: Any) -> None:
            event(run, controls, outputs, **common | more)

        def view_of(values: tuple[Any, ...]) -> View:
            return _view(dict(zip(names, values, strict=True)))

        def show_board(*values: Any, **changes: Any) -> list[Any]:
            return self._board(view_of(values).but(**changes))

        def refilter(*values: Any) -> list[Any]:
            return show_board(*values, page=1)

        def turn(step: int) -> Callable[..., list[Any]]:
            return lambda *values: show_board(*values, page=max(1, view_of(values).page + step))

        def by_heading(event: gr.EventData, *values: Any) -> list[Any]:
            view = view_of(values)
            name = str(event.name) if event.name in {*COLUMNS, "model", "dataset", "rank"} else view.sort
            natural = name in ("model", "dataset", "rank")
            up = not view.up if name == view.sort else natural
            view = view.but(sort=name, up=up, page=1)
            return [name, up, *self._board(view)]

        def pick(event: gr.EventData, *values: Any) -> list[Any]:
            view = view_of(values).but(tab="model", model=str(event.name)[:40], user="")
            return [gr.Tabs(selected="model"), "model", self._model_choice(view), *self._model(view)]

        for name in ("data", "judge", "size", "weights", "origin", "cols", "sort", "up", "layout", "metric"):
            on(self.control[name].input, refilter, board)
        on(self.control["q"].input, refilter, board, trigger_mode="always_last")
        on(self.control["q"].submit, refilter, board)
        on(self.control["q"].blur, show_board, board)  # text that was put there without typing
        on(self.control["page"].submit, show_board, board)
        on(self.back.click, turn(-1), board)
        on(self.forth.click, turn(1), board)
        on(self.board.sort, by_heading, [self.control["sort"], self.control["up"], *board])
        on(self.board.pick, pick, [self.tabs, self.control["tab"], self.control["model"], *model])
        on(self.control["picture"].input, lambda *v: self._pictures(view_of(v)), pictures)
        on(self.control["model"].input, lambda *v: self._model(view_of(v).but(user="")), model)
        on(self.control["user"].input, lambda *v: self._user(view_of(v)), [self.evidence, self.query, self.citation])
        for name in ("a", "b"):
            on(
                self.control[name].input,
                lambda *v: self._compare(view_of(v)),
                [self.compared, self.query, self.citation],
            )
        qrels = [
            self.expansion,
            self.bump,
            self.bump_sentence,
            self.popularity,
            self.popularity_sentence,
            self.qrels,
        ]
        self.expansion.input(self._qrels, [self.expansion], qrels, **common)
        contents = {
            "leaderboard": (board, self._board),
            "pictures": (pictures, self._pictures),
            "model": ([self.control["model"], *model], lambda view: [self._model_choice(view), *self._model(view)]),
            "compare": (
                [self.control["a"], self.control["b"], self.compared, self.query, self.citation],
                lambda view: [*self._compare_choices(view), *self._compare(view)],
            ),
            "qrels": ([*qrels, self.query, self.citation], lambda view: [*self._qrels(None), *self._address(view)]),
        }
        only_address = ([self.query, self.citation], self._address)
        for tab, component in self.tab.items():
            outputs, run = contents.get(tab, only_address)

            def select(ready: str, *values: Any, tab: str = tab, run: Any = run, n: int = len(outputs)) -> list[Any]:
                if not ready:
                    return [gr.skip()] * (n + 1)
                return [tab, *run(view_of(values).but(tab=tab))]

            component.select(select, [self.ready, *controls], [self.control["tab"], *outputs], **common)
        everything = list(dict.fromkeys(part for outputs, _ in contents.values() for part in outputs))
        restored = [
            *controls,
            self.tabs,
            *(part for part in everything if part not in controls),
            self.notice,
            self.ready,
        ]
        restored = list(dict.fromkeys(restored))

        def restore(request: gr.Request) -> dict[Any, Any]:
            view = View.of_query(dict(request.query_params))
            found: dict[Any, Any] = {self.tabs: gr.Tabs(selected=view.tab)}
            for name, component in self.control.items():
                value = getattr(view, name)
                found[component] = list(value) if name == "cols" else value
            for name, column in (("data", "dataset"), ("judge", "judge")):
                found[self.control[name]] = gr.Dropdown(self._choices(column), value=getattr(view, name))
            tabs = ["leaderboard"] if view.tab in ("leaderboard", "submit", "about") else [view.tab, "leaderboard"]
            for tab in reversed(tabs):  # the one that is looked at decides about what both set
                outputs, run = contents[tab]
                found |= dict(zip(outputs, run(view), strict=True))
            found[self.query], found[self.citation] = self._address(view)
            found[self.ready] = "1"
            return found

        self.blocks.load(restore, None, restored, **common)
        gr.on(
            [self.query.change, self.citation.change],
            None,
            [self.query, self.citation],
            [self.cite],
            js=ADDRESS,
            **{"show_progress": "hidden", "api_visibility": "private"},
        )
        self.check.click(
            self._check,
            [self.files, self.repo],
            [self.verdict, self.checked, self.open, self.opened],
            concurrency_limit=2,
            api_visibility="private",
        )
        self.open.click(
            self._open,
            [self.checked],
            [self.opened, self.checked, self.open],
            concurrency_limit=2,
            api_visibility="private",
        )

    # --- what each tab shows ------------------------------------------------------------------------------------------

    @property
    def _snapshot(self) -> Snapshot | None:
        return self.store.snapshot

    def _notice(self) -> str:
        snapshot, problem = self._snapshot, self.store.problem
        if snapshot is None:
            return f'<p role="alert" class="bad">{AWAY} {escape(problem)}</p>'
        when = snapshot.loaded.strftime("%Y-%m-%d %H:%M UTC")
        if problem:
            return (
                f'<p role="alert" class="bad">These results are of {when}: {escape(problem)} They are still shown.</p>'
            )
        return f"<p><small>From {escape(snapshot.source.name)}, read {when}.</small></p>"

    def _choices(self, column: str) -> list[tuple[str, str]]:
        names = [] if self._snapshot is None else sorted(self._snapshot.index[column].dropna().unique())
        return [("all", ""), *((name, name) for name in names)]

    def _address(self, view: View) -> list[Any]:
        snapshot = self._snapshot
        if snapshot is None:
            return [view.query, ""]
        return [view.query, CITATION.format(revision=snapshot.revision[:12], day=snapshot.loaded.strftime("%Y-%m-%d"))]

    def _board(self, view: View) -> list[Any]:
        snapshot = self._snapshot
        if snapshot is None:
            return [self._notice(), f"<p>{AWAY}</p>", "", 1, *self._address(view)]
        html, n_rows, n_pages = leaderboard(snapshot, view.but(q=view.q.strip(), tab="", model="", user="", a="", b=""))
        view = view.but(page=min(view.page, n_pages))
        count = (
            f'<p role="status">{n_rows} rows, page {view.page} of {n_pages}. '
            f'<a href="leaderboard.csv?{escape(view.query)}" download>Download as csv</a></p>'
        )
        return [self._notice(), html, count, view.page, *self._address(view)]

    def _pictures(self, view: View) -> list[Any]:
        snapshot = self._snapshot
        if snapshot is None:
            return [None, AWAY, *self._address(view)]
        name = view.picture if view.picture in PICTURES else "scatter"
        figure, sentence = _drawn(
            snapshot, view.but(picture=name, tab="", page=1, cols=(), model="", user="", a="", b="")
        )
        return [figure, f"<p>{escape(sentence)}</p>", *self._address(view)]

    def _model_choice(self, view: View) -> Any:
        choices = [] if self._snapshot is None else model_choices(self._snapshot)
        return gr.Dropdown(choices, value=view.model or None)

    def _model(self, view: View) -> list[Any]:
        snapshot = self._snapshot
        if snapshot is None:
            return [AWAY, None, "", gr.Dropdown([]), "", *self._address(view)]
        about = "How the scores are spread over users: a median hides whether most users or few do well."
        try:
            figure = _spread(snapshot, view.model)
        except SourceError as error:
            figure, about = None, f"How the scores are spread over users cannot be shown at the moment. {error}"
        else:
            about = about if figure else ""
        users = user_choices(snapshot, view.model)
        return [
            model_page(snapshot, view.model),
            figure,
            f"<p>{escape(about)}</p>" if about else "",
            gr.Dropdown(users, value=view.user or None),
            evidence(snapshot, view.model, view.user),
            *self._address(view),
        ]

    def _user(self, view: View) -> list[Any]:
        if self._snapshot is None:
            return [AWAY, *self._address(view)]
        return [evidence(self._snapshot, view.model, view.user), *self._address(view)]

    def _compare_choices(self, view: View) -> list[Any]:
        choices = [] if self._snapshot is None else model_choices(self._snapshot)
        return [gr.Dropdown(choices, value=view.a or None), gr.Dropdown(choices, value=view.b or None)]

    def _compare(self, view: View) -> list[Any]:
        if self._snapshot is None:
            return [AWAY, *self._address(view)]
        return [compared(self._snapshot, view.a, view.b), *self._address(view)]

    def _qrels(self, name: str | None) -> list[Any]:
        snapshot = self._snapshot
        if snapshot is None:
            return [gr.Dropdown(visible=False), gr.Plot(visible=False), "", gr.Plot(visible=False), "", AWAY]
        names = expansions(snapshot)
        name = name if name in names else next(iter(names), None)
        bump, about_bump, scatter, about_scatter = qrels_pictures(snapshot, name)
        return [
            gr.Dropdown(names, value=name, visible=bool(names)),
            gr.Plot(bump, visible=bump is not None),
            f"<p>{escape(about_bump)}</p>",
            gr.Plot(scatter, visible=scatter is not None),
            f"<p>{escape(about_scatter)}</p>",
            qrels_page(snapshot, name),
        ]

    def _check(self, files: list[str] | None, repo: str, request: gr.Request) -> list[Any]:
        client = client_of(request)
        try:
            if not files and not (repo or "").strip():
                raise SubmissionError("Choose files, or name a data set on the Hub.")
            checked = self.submissions.check([Path(name) for name in files or ()], (repo or "").strip(), client)
        except SubmissionError as error:
            problems = "".join(f"<li>{escape(problem)}</li>" for problem in error.problems)
            html = f'<div role="alert" class="bad"><b>Not accepted.</b><ul>{problems}</ul></div>'
            return [html, None, gr.Button(visible=False), ""]
        can_open = self.submissions.can_open
        about = (
            "" if can_open else "<p>This page has no token for the Hub, so no pull request can be opened from it.</p>"
        )
        return [checked.html(), checked, gr.Button(visible=can_open), about]

    def _open(self, checked: Any) -> list[Any]:
        try:
            url = self.submissions.open_pull_request(checked)
        except SubmissionError as error:
            return [f'<p role="alert" class="bad">{escape(error)}</p>', None, gr.Button(visible=False)]
        said = f'<p role="status" class="good">Opened: <a href="{escape(url)}" rel="noopener">{escape(url)}</a></p>'
        return [said, None, gr.Button(visible=False)]


SUBMIT = """
<h2>Submit a result</h2>
<ol>
<li>Run the benchmark:
<code>gistbench run --output runs/mine --dataset DATA --candidate MODEL --judge JUDGE</code>.</li>
<li>Zip its run folder, or choose these files of it: manifest.json, users, extractions, evidence, groundings,
retrievals and mappings (.parquet). Or put them into a public data set and name it.</li>
<li>Everything is scored again here from these records, with the modules that everyone loads; scores in the upload are
not read. What is wrong is listed. What is right can be opened as a pull request.</li>
</ol>
<p><span class="badge self">self-judged</span> Since a judge's answers can be made up, the row is marked until a
maintainer has judged its interests again (<code>gistbench hub rejudge</code>): then it is <span
class="badge">re-judged</span>, with the scores of that. Nothing in an upload is run. At most 200 MB, and 6 checks an
hour.</p>
"""


@lru_cache(maxsize=128)
def _drawn(snapshot: Snapshot, view: View) -> tuple[Any, str]:
    figure, sentence = draw(view.picture, chosen_rows(snapshot, view), view.metric)
    return _written(figure), sentence


@lru_cache(maxsize=128)
def _spread(snapshot: Snapshot, id: str) -> Any:
    """Return how a row's scores are spread over users; None where it has none."""
    row = snapshot.row(id)
    if row is None or row["origin"] == "published":
        return None
    return _written(distribution(snapshot.record(row, "scores")))


def _written(figure: Any) -> PlotData | None:
    """Return a figure as it is sent: to write it takes longer than to draw it, so that is kept too."""
    return None if figure is None else PlotData(type="plotly", plot=figure.to_json())


def _pairs(choices: dict[str, str]) -> list[tuple[str, str]]:
    return [(shown, value) for value, shown in choices.items()]


def _view(values: dict[str, Any]) -> View:
    """Return the view that the components' values make, read as an address would be."""
    texts = {}
    for name, value in values.items():
        if name == "cols":
            texts[name] = ".".join(map(str, value or ()))
        elif name == "up":
            texts[name] = "1" if value else ""
        elif value is not None:
            texts[name] = str(value)
    return View.of_query(texts)
