"""A Hugging Face Hub of the tests' own: real HTTP on loopback, for the real `huggingface_hub` and `datasets` clients.

Answers what those clients ask when they create, commit to, tag, list and read model, dataset and Space repositories; it
keeps everything in memory. Points at which a connection breaks can be set (:meth:`Hub.interrupt`), and every request is
remembered. Clients must be started with :meth:`Hub.environment`, as `HF_ENDPOINT` is read at import.

    with Hub(tokens={"hf_writer": "gistbench"}) as hub:
        subprocess.run([sys.executable, "-c", script], env=hub.environment(tmp_path, token="hf_writer"))

A commit that asks for a pull request is kept under ``refs/pr/N`` and leaves ``main`` alone.

What it does not know: quotas, organisations and roles (a token may write to everything), discussions, Xet storage.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TYPES = ("models", "datasets", "spaces")
DATE = "2026-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class Blob:
    """A file of a commit; ``lfs`` is the sha256 of its content where that lies in LFS."""

    content: bytes
    lfs: str | None

    @property
    def oid(self) -> str:
        """The id that git knows the file by: for LFS that of its pointer."""
        stored = self.pointer if self.lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()

    @property
    def pointer(self) -> bytes:
        text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.lfs}\nsize {len(self.content)}\n"
        return text.encode()


@dataclass(frozen=True)
class Commit:
    oid: str
    message: str
    files: dict[str, Blob]


@dataclass
class Repo:
    """A repository: its commits, oldest first, and the names that point at them."""

    private: bool
    sdk: str | None = None
    commits: list[Commit] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    lfs: dict[str, bytes] = field(default_factory=dict)

    @property
    def head(self) -> Commit:
        return self.commits[-1]

    def commit(self, message: str, files: dict[str, Blob]) -> Commit:
        listed = sorted((path, blob.oid) for path, blob in files.items())
        oid = hashlib.sha1(json.dumps([len(self.commits), message, listed]).encode()).hexdigest()
        self.commits.append(Commit(oid, message, files))
        self.branches["main"] = oid
        return self.head

    def propose(self, message: str, files: dict[str, Blob]) -> tuple[int, Commit]:
        """Make a commit that only a pull request points at; return the request's number."""
        main = self.branches["main"]
        number = sum(name.startswith("refs/pr/") for name in self.branches) + 1
        oid = hashlib.sha1(json.dumps([number, message, sorted(files)]).encode()).hexdigest()
        self.commits.insert(len(self.commits) - 1, Commit(oid, message, files))
        self.branches |= {f"refs/pr/{number}": oid, "main": main}
        return number, self.commits[-2]

    def at(self, revision: str) -> Commit | None:
        oid = self.branches.get(revision) or self.tags.get(revision) or revision
        return next((commit for commit in self.commits if commit.oid == oid), None)


class HubProblemError(Exception):
    """An answer that is an error, as the Hub words it."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


class DroppedError(Exception):
    """The connection was cut on purpose."""


class Hub:
    """A running Hub; a context manager."""

    def __init__(self, tokens: dict[str, str] | None = None, readers: dict[str, str] | None = None) -> None:
        self.writers = tokens or {}
        self.users = {**self.writers, **(readers or {})}
        self.repos: dict[tuple[str, str], Repo] = {}
        self.requests: list[tuple[str, str]] = []
        self.lock = threading.RLock()
        self._interruptions: list[tuple[str, re.Pattern[str], int, threading.Event]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"hub": self}))
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "Hub":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def environment(self, home: Path, token: str | None = None) -> dict[str, str]:
        """Return the environment of a client process: this Hub, a cache of its own, and no other access."""
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "HTTP", "http", "ALL_PROXY"))
        }
        own = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        return kept | own | quiet | ({"HF_TOKEN": token} if token else {})

    def repo(self, repo_id: str, type: str = "datasets") -> Repo:
        return self.repos[type, repo_id]

    def count(self, method: str, pattern: str) -> int:
        """Return how many requests had this method and a path in which the pattern is found."""
        return sum(m == method and re.search(pattern, path) is not None for m, path in self.requests)

    @contextlib.contextmanager
    def interrupt(self, method: str, pattern: str, *, after_bytes: int = 0) -> Iterator[threading.Event]:
        """Cut the connection of such requests after so many bytes of their bodies; the event tells that it happened."""
        happened = threading.Event()
        rule = (method, re.compile(pattern), after_bytes, happened)
        self._interruptions.append(rule)
        try:
            yield happened
        finally:
            self._interruptions.remove(rule)

    def interruption(self, method: str, path: str) -> tuple[int, threading.Event] | None:
        for wanted, pattern, after_bytes, happened in self._interruptions:
            if wanted == method and pattern.search(path):
                return after_bytes, happened
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query))
        try:
            self.hub.requests.append((self.command, url.path))
            body = self._read_body(url.path)
            with self.hub.lock:
                self._route(url.path, body)
        except HubProblemError as problem:
            headers = {"X-Error-Message": problem.message} | ({"X-Error-Code": problem.code} if problem.code else {})
            self._json({"error": problem.message}, problem.status, headers)
        except DroppedError:
            self.close_connection = True
            self.connection.close()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def _read_body(self, path: str) -> bytes:
        interruption = self.hub.interruption(self.command, path)
        if interruption is not None:
            after_bytes, happened = interruption
            self.rfile.read(min(after_bytes, int(self.headers.get("Content-Length") or 0)))
            happened.set()
            raise DroppedError
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    # Who asks

    def _user(self) -> str | None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer":
            return None
        if token not in self.hub.users:
            raise HubProblemError(401, "Invalid credentials in Authorization header")
        return self.hub.users[token]

    def _require_writer(self) -> str:
        user = self._user()
        if user is None:
            raise HubProblemError(401, "Invalid username or password.")
        if self.headers["Authorization"].split(" ")[1] not in self.hub.writers:
            raise HubProblemError(403, "You don't have the rights to create or change this repository")
        return user

    def _repo(self, type: str, repo_id: str, *, write: bool = False) -> Repo:
        repo = self.hub.repos.get((type, repo_id))
        if repo is None or (repo.private and self._user() is None):
            # As the Hub does: who is not logged in cannot tell a private repository from none.
            raise HubProblemError(404 if self._user() else 401, "Repository not found", "RepoNotFound")
        if write:
            self._require_writer()
        return repo

    def _commit_at(self, repo: Repo, revision: str) -> Commit:
        commit = repo.at(urllib.parse.unquote(revision))
        if commit is None:
            raise HubProblemError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    # What is asked

    def _route(self, path: str, body: bytes) -> None:
        if path == "/api/whoami-v2":
            user = self._user()
            if user is None:
                raise HubProblemError(401, "Invalid username or password.")
            return self._json({"type": "user", "name": user, "orgs": [], "auth": {"accessToken": {"role": "write"}}})
        if path == "/api/validate-yaml":
            return self._validate_yaml(json.loads(body))
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if match := re.fullmatch(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)(?:/(.*))?", path):
            type, repo_id, rest = match.groups()
            action, _, argument = (rest or "revision/main").partition("/")
            answer = getattr(self, f"_api_{action.replace('-', '_')}", None)
            if answer is None:
                raise HubProblemError(404, f"no such route: {path}")
            return answer(type, repo_id, argument, body)  # type: ignore[no-any-return]
        if match := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+?)\.git/info/lfs/objects/batch", path):
            return self._lfs_batch(match[1] or "models", match[2], json.loads(body))
        if match := re.fullmatch(r"/lfs/(models|datasets|spaces)/([^/]+/[^/]+)/(\w{64})", path):
            return self._lfs_put(match[1], match[2], match[3], body)
        if match := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)/(?:resolve|raw)/([^/]+)/(.+)", path):
            return self._resolve(match[1] or "models", match[2], match[3], urllib.parse.unquote(match[4]))
        raise HubProblemError(404, f"no such route: {path}")

    def _validate_yaml(self, asked: dict[str, str]) -> None:
        import yaml

        match = re.match(r"---\n(.*?)\n---\n", asked["content"], re.DOTALL)
        try:
            found = isinstance(yaml.safe_load(match[1]), dict) if match else False
        except yaml.YAMLError as error:
            return self._json({"errors": [{"message": str(error)}], "warnings": []}, 400)
        warnings = [] if found else [{"message": "empty or missing yaml metadata in repo card"}]
        self._json({"errors": [], "warnings": warnings})

    def _create(self, asked: dict[str, Any]) -> None:
        user = self._require_writer()
        type = f"{asked.get('type') or 'model'}s"
        repo_id = f"{asked.get('organization') or user}/{asked['name']}"
        url = f"{self.hub.endpoint}/{'' if type == 'models' else type + '/'}{repo_id}"
        if (type, repo_id) in self.hub.repos:
            return self._json({"error": "You already created this repo", "url": url}, 409)
        repo = Repo(private=asked.get("visibility") == "private" or bool(asked.get("private")), sdk=asked.get("sdk"))
        repo.commit("initial commit", {".gitattributes": Blob(b"*.parquet filter=lfs\n", None)})
        self.hub.repos[type, repo_id] = repo
        self._json({"url": url, "name": repo_id, "id": repo_id})

    def _api_revision(self, type: str, repo_id: str, revision: str, _: bytes) -> None:
        repo = self._repo(type, repo_id)
        commit = self._commit_at(repo, revision)
        siblings = [
            {"rfilename": path, "size": len(blob.content), "blobId": blob.oid} for path, blob in commit.files.items()
        ]
        about = {"id": repo_id, "_id": repo_id, "author": repo_id.split("/")[0], "sha": commit.oid, "tags": []}
        about |= {"private": repo.private, "gated": False, "disabled": False, "downloads": 0, "likes": 0}
        about |= {"lastModified": DATE, "createdAt": DATE, "siblings": siblings}
        self._json(about | ({"sdk": repo.sdk} if repo.sdk else {}))

    def _api_tree(self, type: str, repo_id: str, argument: str, _: bytes) -> None:
        revision, _, folder = argument.partition("/")
        files = self._commit_at(self._repo(type, repo_id), revision).files
        prefix = f"{urllib.parse.unquote(folder)}/" if folder else ""
        inside = [path for path in sorted(files) if path.startswith(prefix)]
        if folder and not inside:
            raise HubProblemError(404, f'"{folder}" does not exist on "{revision}"', "EntryNotFound")
        recursive = self.query.get("recursive", "").lower() in ("1", "true")
        folders: set[str] = set()
        for path in inside:
            parents = path.removeprefix(prefix).split("/")[:-1]
            for depth in range(1, len(parents) + 1 if recursive else min(len(parents), 1) + 1):
                folders.add(prefix + "/".join(parents[:depth]))
        listed = [path for path in inside if recursive or "/" not in path.removeprefix(prefix)]
        entries = [_folder_entry(path) for path in sorted(folders)] + [_file_entry(p, files[p]) for p in listed]
        self._json(entries)

    def _api_paths_info(self, type: str, repo_id: str, revision: str, body: bytes) -> None:
        files = self._commit_at(self._repo(type, repo_id), revision).files
        if "json" in self.headers.get("Content-Type", ""):
            paths = json.loads(body)["paths"]
        else:
            paths = urllib.parse.parse_qs(body.decode()).get("paths", [])
        entries = []
        for path in paths:
            if path in files:
                entries.append(_file_entry(path, files[path]))
            elif any(name.startswith(f"{path}/") for name in files):
                entries.append(_folder_entry(path))
        self._json(entries)

    def _api_refs(self, type: str, repo_id: str, *_: Any) -> None:
        repo = self._repo(type, repo_id)
        branches = [{"name": n, "ref": f"refs/heads/{n}", "targetCommit": oid} for n, oid in repo.branches.items()]
        tags = [{"name": n, "ref": f"refs/tags/{n}", "targetCommit": oid} for n, oid in repo.tags.items()]
        self._json({"branches": branches, "tags": tags, "converts": [], "pullRequests": []})

    def _api_commits(self, type: str, repo_id: str, revision: str, _: bytes) -> None:
        repo = self._repo(type, repo_id)
        last = repo.commits.index(self._commit_at(repo, revision))
        listed = repo.commits[last::-1]
        self._json([{"id": c.oid, "title": c.message, "message": "", "date": DATE, "authors": []} for c in listed])

    def _api_tag(self, type: str, repo_id: str, argument: str, body: bytes) -> None:
        repo = self._repo(type, repo_id, write=True)
        if self.command == "DELETE":
            if repo.tags.pop(urllib.parse.unquote(argument), None) is None:
                raise HubProblemError(404, f"Invalid rev id: {argument}", "RevisionNotFound")
            return self._json({})
        tag = json.loads(body)["tag"]
        if tag in repo.tags:
            raise HubProblemError(409, "Tag reference exists already")
        repo.tags[tag] = self._commit_at(repo, argument).oid
        self._json({})

    def _api_preupload(self, type: str, repo_id: str, revision: str, body: bytes) -> None:
        files = self._commit_at(self._repo(type, repo_id, write=True), revision).files
        answers = []
        for asked in json.loads(body)["files"]:
            path = asked["path"]
            large = path.endswith((".parquet", ".arrow", ".zip", ".gz")) or asked["size"] > 10_000_000
            known = {"oid": files[path].lfs or files[path].oid} if path in files else {}
            answers.append({"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False} | known)
        self._json({"files": answers})

    def _lfs_batch(self, type: str, repo_id: str, asked: dict[str, Any]) -> None:
        repo = self._repo(type, repo_id, write=True)
        objects = []
        for wanted in asked["objects"]:
            known = {"oid": wanted["oid"], "size": wanted["size"], "authenticated": True}
            if wanted["oid"] not in repo.lfs:
                known["actions"] = {"upload": {"href": f"{self.hub.endpoint}/lfs/{type}/{repo_id}/{wanted['oid']}"}}
            objects.append(known)
        self._json({"transfer": "basic", "objects": objects})

    def _lfs_put(self, type: str, repo_id: str, oid: str, body: bytes) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            raise HubProblemError(400, "the content does not have the announced hash")
        self.hub.repos[type, repo_id].lfs[oid] = body
        self._send(200, b"", "text/plain")

    def _api_commit(self, type: str, repo_id: str, revision: str, body: bytes) -> None:
        repo = self._repo(type, repo_id, write=True)
        if revision != "main":
            raise HubProblemError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        files = dict(repo.head.files)
        message = ""
        for line in body.splitlines():
            entry = json.loads(line)
            kind, value = entry["key"], entry["value"]
            path = value.get("path", "")
            if kind == "header":
                message = value["summary"]
                if value.get("parentCommit") not in (None, repo.head.oid):
                    raise HubProblemError(412, "A commit has happened since. Please refresh and try again.")
            elif kind == "file":
                files[path] = Blob(base64.b64decode(value["content"]), None)
            elif kind == "lfsFile":
                if value["oid"] not in repo.lfs:
                    raise HubProblemError(400, f"LFS pointer {path} points to a file that does not exist")
                files[path] = Blob(repo.lfs[value["oid"]], value["oid"])
            elif kind == "deletedFile":
                if files.pop(path, None) is None:
                    raise HubProblemError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
            elif kind == "deletedFolder":
                files = {name: blob for name, blob in files.items() if not name.startswith(path.rstrip("/") + "/")}
            else:
                raise HubProblemError(400, f"unknown operation {kind}")
        prefix = "" if type == "models" else f"{type}/"
        repo_url = f"{self.hub.endpoint}/{prefix}{repo_id}"
        proposed = {}
        if self.query.get("create_pr") == "1":
            number, commit = repo.propose(message, files)
            proposed = {"pullRequestUrl": f"{repo_url}/discussions/{number}"}
        else:
            commit = repo.commit(message, files)
        url = f"{repo_url}/commit/{commit.oid}"
        self._json({"success": True, "commitOid": commit.oid, "commitUrl": url, "hookOutput": ""} | proposed)

    def _resolve(self, type: str, repo_id: str, revision: str, path: str) -> None:
        commit = self._commit_at(self._repo(type, repo_id), revision)
        if path not in commit.files:
            raise HubProblemError(404, "Entry not found", "EntryNotFound")
        blob = commit.files[path]
        headers = {"ETag": f'"{blob.lfs or blob.oid}"', "X-Repo-Commit": commit.oid, "Accept-Ranges": "bytes"}
        if blob.lfs:
            headers |= {"X-Linked-Etag": f'"{blob.lfs}"', "X-Linked-Size": str(len(blob.content))}
        content, size = blob.content, len(blob.content)
        if match := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            first = int(match[1]) if match[1] else max(0, size - int(match[2]))
            last = min(int(match[2]), size - 1) if match[1] and match[2] else size - 1
            if first >= size:
                return self._send(416, b"", "text/plain", {"Content-Range": f"bytes */{size}"})
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
            return self._send(206, content[first : last + 1], "application/octet-stream", headers)
        self._send(200, content, "application/octet-stream", headers)

    # How it is answered

    def _json(self, data: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(data).encode(), "application/json", headers)

    def _send(self, status: int, content: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _file_entry(path: str, blob: Blob) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "oid": blob.oid, "size": len(blob.content)}
    if blob.lfs:
        entry["lfs"] = {"oid": blob.lfs, "size": len(blob.content), "pointerSize": len(blob.pointer)}
    return entry


def _folder_entry(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0}
