"""The arrows of docs/design.md: who may import whom, and what no module may do."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("hf_datasets", "metrics", "runners", "space")
MAY_IMPORT = {"hf_datasets": set(), "metrics": set(), "runners": {"hf_datasets"}, "space": set()}
MODULES = [
    path.relative_to(ROOT)
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "__pycache__" not in path.parts
]
HEAVY = {
    "vllm",
    "torch",
    "transformers",
    "aiohttp",
    "ray",
    "gradio",
    "sklearn",
    "scipy",
    "pandas",
    "evaluate",
    "datasets",
}


def parse(module: Path) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), str(module))


def imports_of(tree: ast.Module, module: Path) -> Iterator[tuple[str, ...]]:
    """Yield every import as the parts of an absolute name; ours begin with ``gistbench``."""
    package = ("gistbench", *module.parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield tuple(name.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = (*base, *(node.module.split(".") if node.module else ()))
            for name in node.names:
                yield (*stem, name.name)


def is_main(module: Path) -> bool:
    return module.name == "__main__.py"


def test_there_are_modules_in_every_folder():
    assert {module.parts[0] for module in MODULES} == set(FOLDERS)
    assert len(MODULES) > 50


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from ..hf_datasets.errors import ConfigError", ("gistbench", "hf_datasets", "errors", "ConfigError")),
        ("from .store import ResponseStore", ("gistbench", "runners", "store", "ResponseStore")),
        ("from . import store", ("gistbench", "runners", "store")),
        ("from .. import metrics", ("gistbench", "metrics")),
        ("import gistbench.metrics.ig", ("gistbench", "metrics", "ig")),
        ("def f():\n    from ..space import app", ("gistbench", "space", "app")),
    ],
)
def test_imports_are_seen_in_every_form(line, found):
    assert list(imports_of(ast.parse(line), Path("runners/x.py"))) == [found]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_folders_import_only_whom_they_may(module):
    folder = module.parts[0]
    for name in imports_of(parse(module), module):
        if name[0] == "gistbench":
            other = name[1]
            assert other == folder or other in MAY_IMPORT[folder], f"{module} imports {'.'.join(name)}"
        else:
            # A folder of ours is never imported as if it were installed by itself.
            assert name[0] not in ("hf_datasets", "runners", "space"), f"{module} imports {'.'.join(name)}"


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[0] == "metrics"], ids=str)
def test_metrics_import_only_siblings_in_their_own_folder(module):
    for name in imports_of(parse(module), module):
        if name[0] != "gistbench":
            continue
        inside = name[: len(module.parts)]
        assert inside == ("gistbench", *module.parts[:-1]), f"{module} imports {'.'.join(name)}"
        sibling = ROOT.joinpath(*module.parts[:-1], f"{name[len(module.parts)]}.py")
        assert sibling.exists(), f"{module} imports {'.'.join(name)}, which does not stand beside it"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_only_the_command_line_talks_to_the_terminal(module):
    # A metric's app.py is a Space of its own, and scripts for people are not part of the package.
    if module.match("runners/cli*.py") or module.name == "app.py":
        return
    tree = parse(module)
    prints = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "print"]
    assert not prints, f"{module} prints in lines {prints}"
    assert not any(name[0] in ("typer", "click", "argparse") for name in imports_of(tree, module))


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_nothing_is_pickled_or_evaluated(module):
    tree = parse(module)
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    assert not forbidden & {name[0] for name in imports_of(tree, module)}
    calls = {getattr(node.func, "id", "") for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not calls & {"eval", "exec"}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_no_error_is_swallowed(module):
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.ExceptHandler):
            caught = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)} if node.type else {"everything"}
            broad = caught & {"everything", "Exception", "BaseException"}
            raises = any(isinstance(n, ast.Raise) for n in ast.walk(node))
            assert not broad or raises, f"{module}:{node.lineno} catches {caught} and goes on"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_says_what_it_is(module):
    docstring = ast.get_docstring(parse(module))
    assert docstring
    assert docstring.splitlines()[0].strip()


@pytest.mark.parametrize("module", [m for m in MODULES if not is_main(m) and m.parts[0] != "space"], ids=str)
def test_public_modules_say_what_is_public(module):
    if module.name == "app.py" or (module.name.startswith("_") and module.name != "__init__.py"):
        return
    tree = parse(module)
    defined = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))}
    if not any(not name.startswith("_") for name in defined) or module.parts[0] == "metrics":
        return
    assigned = {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    assert "__all__" in assigned, f"{module} has no __all__"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_is_typed_and_installed(folder):
    assert (ROOT / folder / "py.typed").exists()
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for path in sorted((ROOT / folder).rglob("__init__.py")):
        package = ".".join(("gistbench", *path.parent.relative_to(ROOT).parts))
        assert f'"{package}"' in pyproject, f"{package} is not among the packages of pyproject.toml"


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_command_line_starts_without_heavy_imports():
    loaded = modules_after("import gistbench.runners.cli")
    assert not loaded & HEAVY, loaded & HEAVY


def test_engines_are_imported_when_they_are_used():
    loaded = modules_after("from gistbench.runners.engines import parse_model\nparse_model('org/model')")
    assert not loaded & {"vllm", "torch", "transformers", "aiohttp", "sklearn"}


def test_the_installed_package_has_no_top_level_names_but_its_own():
    loaded = modules_after("import gistbench.runners.suite")
    assert not loaded & {"runners", "metrics", "hf_datasets", "space"}
