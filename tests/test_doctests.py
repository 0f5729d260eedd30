"""Every example in a docstring is true."""

import doctest
import importlib
import pkgutil

import gistbench.hf_datasets
import gistbench.runners
import pytest

PACKAGES = (gistbench.hf_datasets, gistbench.runners)
OPTIONAL = {"vllm", "torch", "transformers", "aiohttp", "tenacity", "ray", "gradio", "implicit", "gensim", "surprise"}
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
