"""vLLM's own OpenAI-compatible server on this machine, as a process that ends with the block that started it."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 300
LIKE_OFFLINE = {
    "generation_config": "vllm",
    "structured_outputs_config": '{"backend": "xgrammar", "disable_any_whitespace": true}',
}
"""What a server must be told to answer as the offline engine of this package does."""


@contextmanager
def vllm_server(model: Path, log: Path, **options: object) -> Iterator[str]:
    """Serve a folder's model under the folder's name and yield the base URL; options are those of the server.

    Raises:
        RuntimeError: the server ended or was not ready in time; its last words are in the message.
    """
    port = _free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--model", str(model), "--served-model-name", model.name]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as process:
        try:
            _wait(process, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    give_up = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < give_up:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(1)
        else:
            return
    raise RuntimeError(f"vLLM's server is not ready: {log.read_text(errors='replace')[-2000:]}")
