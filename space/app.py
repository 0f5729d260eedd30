"""The leaderboard Space: shows results from a folder or from the Hub, and takes submissions.

Settings are environment variables: GISTBENCH_RESULTS (a results folder, or a data set on the Hub; default: what
results.txt beside this file names), GISTBENCH_METRICS (where metric modules are loaded from; default: gistbench),
GISTBENCH_REFRESH (seconds between looks for newer results), HF_TOKEN (opens pull requests for submissions).
"""

import gc
import os
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

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

WARM_UP_AFTER_SECONDS = 5
"""So that it does not compete with the start."""
HEADERS = {
    # Nothing on the page may come from, or go, elsewhere; the framework needs its own inline scripts and templates.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class WithHeaders:
    """Adds the headers to every answer."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        """Wrap an application."""
        self._app = app
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer, with the headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in self._headers if one[0] not in there)]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def make_app(store: Store, token: str | None = None) -> FastAPI:
    """Return the web application over a store of results."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    app.add_middleware(WithHeaders)

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
    warm_up = threading.Timer(WARM_UP_AFTER_SECONDS, _warm_up)
    warm_up.daemon = True
    warm_up.start()
    host, port = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"), int(os.environ.get("GRADIO_SERVER_PORT", "7860"))
    # Gradio loads it at the first event, for seconds, wherever it is installed; no picture here is drawn with it.
    sys.modules.setdefault("matplotlib", None)  # type: ignore[arg-type]
    app = make_app(store, token)
    gc.collect()
    gc.freeze()  # what is there now stays, so no later collection looks through it again
    uvicorn.run(app, host=host, port=port, log_level="warning")


def _warm_up() -> None:
    """Load what the first comparison needs; where it cannot be had, the comparison says so."""
    try:
        load_metric("ig")
    except MetricsError:
        return


if __name__ == "__main__":
    main()
