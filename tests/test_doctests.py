"""Every example in a docstring is true."""

import doctest
import importlib
import pkgutil
import sys
from pathlib import Path

import evaluate
import gistbench.hf_datasets
import gistbench.runners
import pytest

PACKAGES = (gistbench.hf_datasets, gistbench.runners)
OPTIONAL = {"vllm", "torch", "transformers", "aiohttp", "ray", "gradio", "implicit", "gensim", "surprise"}
NAMES = [
    name
    for package in PACKAGES
    for name in (
        package.__name__,
        *(module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
    )
    if not name.endswith("__main__")
]


def load(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"{name} needs {error.name}")


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    failures = doctest.testmod(load(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failures.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    n_examples = sum(len(test.examples) for name in NAMES for test in finder.find(load(name)))
    assert n_examples >= 20


METRICS = Path(__file__).resolve().parents[1] / "metrics"


@pytest.mark.parametrize("name", ["ig", "is", "survey", "qrels_expansion"])
def test_examples_of_metrics(name, monkeypatch):
    """Those of the functions, those that `help(module.compute)` shows, and those of the helpers."""
    load = evaluate.load
    module = load(str(METRICS / name))
    monkeypatch.setattr(evaluate, "load", lambda path: load(str(METRICS / path.removeprefix("gistbench/"))))
    package = type(module).__module__.rpartition(".")[0]
    helpers = [path.stem for path in (METRICS / name).glob("*.py") if path.stem not in ("app", "page")]
    finder, runner = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestRunner()
    tests = [test for stem in helpers for test in finder.find(sys.modules[f"{package}.{stem}"])]
    assert any(test.examples for test in tests)
    text = module.inputs_description
    shown = doctest.DocTestParser().get_doctest(text, {"evaluate": evaluate}, f"{name}.compute", None, None)
    assert len(shown.examples) >= 3
    for test in (*tests, shown):
        runner.run(test)
    assert runner.failures == 0
