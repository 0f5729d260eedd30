"""The leaderboard Space: shows results from a folder or from the Hub, and takes submissions.

Settings are environment variables: GISTBENCH_RESULTS (a results folder, or a data set on the Hub; default: what
results.txt beside this file names), GISTBENCH_METRICS (where metric modules are loaded from; default: gistbench),
GISTBENCH_REFRESH (seconds between looks for newer results), HF_TOKEN (opens pull requests for submissions).
"""

import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr
import uvicorn
from fastapi import FastAPI, Request, Response
from leaderboard.data import Store, open_store  # type: ignore[import-not-found]
from leaderboard.intake import MAX_UPLOAD_BYTES  # type: ignore[import-not-found]
from leaderboard.metrics import MetricsError, load_metric  # type: ignore[import-not-found]
from leaderboard.page import CSS, build, theme  # type: ignore[import-not-found]
from leaderboard.submit import Submissions  # type: ignore[import-not-found]
from leaderboard.view import View, view_csv  # type: ignore[import-not-found]

HEADERS = {
    # Nothing on the page may come from, or go, elsewhere; the framework needs its own inline scripts and templates.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def make_app(store: Store, token: str | None = None) -> FastAPI:
    """Return the web application over a store of results."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.get("/leaderboard.csv")
    def as_csv(request: Request) -> Response:
        if store.snapshot is None:
            return Response("There are no results yet.", 503, media_type="text/plain")
        text = view_csv(store.snapshot, View.of_query(dict(request.query_params)))
        headers = {"Content-Disposition": "attachment; filename=leaderboard.csv"}
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)

    blocks = build(store, Submissions(store, token))
    blocks.queue(default_concurrency_limit=8, max_size=500)
    mounted: FastAPI = gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        theme=theme(),
        css=CSS,
        footer_links=[],
        show_error=False,
        max_file_size=MAX_UPLOAD_BYTES,
        ssr_mode=False,
    )
    return mounted


def main() -> None:
    """Serve the page."""
    beside = Path(__file__).with_name("results.txt")
    default = beside.read_text(encoding="utf-8").strip() if beside.exists() else "gistbench/results"
    token = os.environ.get("HF_TOKEN") or None
    refresh = float(os.environ.get("GISTBENCH_REFRESH", "300"))
    store = open_store(os.environ.get("GISTBENCH_RESULTS", default), token, refresh)
    store.start()
    threading.Thread(target=_warm_up, daemon=True).start()
    host, port = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"), int(os.environ.get("GRADIO_SERVER_PORT", "7860"))
    uvicorn.run(make_app(store, token), host=host, port=port, log_level="warning")


def _warm_up() -> None:
    """Load what the first comparison needs; where it cannot be had, the comparison says so."""
    try:
        load_metric("ig")
    except MetricsError:
        return


if __name__ == "__main__":
    main()
