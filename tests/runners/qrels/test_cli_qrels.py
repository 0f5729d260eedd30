import json
import sys
import warnings

import pytest
from gistbench.runners import cli, cli_qrels

# The command line prints these; here they would be errors.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def qrels(monkeypatch, capsys):
    """Run `gistbench qrels` in this process; return code, standard output, and standard error on one line."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    for console in (cli.err, cli_qrels.out, cli_qrels.err):
        monkeypatch.setattr(console, "_width", 200)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gistbench", "qrels", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            cli.main()
        stdout, stderr = capsys.readouterr()
        return done.value.code or 0, stdout, " ".join(stderr.split())

    return run


def test_all_steps(qrels, ratings_csv, tmp_path):
    work = tmp_path / "w"
    code, out, _ = qrels("split", "-w", work, "--dataset", ratings_csv)
    assert code == 0
    assert "test items without training ratings" in out
    assert f"gistbench qrels recommend --work {work}" in out.replace("\n", "")
    chosen = [part for name in ("random", "popularity", "wsr-ub", "wsr-ub-50") for part in ("--run", name)]
    code, out, _ = qrels("recommend", "-w", work, *chosen)
    assert code == 0
    assert "wsr-ub (further setting)" in out
    code, out, _ = qrels("sample", "-w", work, "--size", 30, "--size", 500, "--repeats", 2, "--take", 30)
    assert code == 0
    assert "Kept: 30 users" in out
    assert "Left out, more users than there are: 500." in out
    code, out, _ = qrels("pool", "-w", work, "--depth", 10)
    assert code == 0
    assert "pairs of 30 users" in out
    assert "wsr-ub-50" in out
    assert json.loads((work / "pool.json").read_text())["settings"]["depth"] == 10


def test_errors_are_one_message(qrels, tmp_path):
    code, _, message = qrels("recommend", "-w", tmp_path / "none")
    assert code == 1
    assert "has no split.json: run `gistbench qrels split" in message
    code, _, message = qrels("split", "-w", tmp_path / "w", "--dataset", "nothing.csv")
    assert code == 1
    assert message.startswith("Error: No data set of ratings and no file is called 'nothing.csv'")


def test_what_does_not_fit_says_what_it_would_need(qrels, ratings_csv, tmp_path):
    work = tmp_path / "w"
    qrels("split", "-w", work, "--dataset", ratings_csv)
    code, _, message = qrels("recommend", "-w", work, "--run", "ease", "--memory-gib", 0.01)
    assert code == 1
    assert "ease needs about 0.3 GiB for 120 users" in message
    assert "--max-items" in message
    code, out, _ = qrels(
        "recommend", "-w", work, "--run", "ease", "--run", "random", "--memory-gib", 0.3, "--max-items", 9
    )
    assert code == 0, out


def test_none_meets_the_criteria(qrels, work):
    code, out, _ = qrels("sample", "-w", work.path, "--size", 5, "--min-tau", 1, "--repeats", 1)
    assert code == 0
    assert "No size meets both criteria" in out
    code, _, message = qrels("pool", "-w", work.path)
    assert code == 1
    assert "sample --take N" in message


@pytest.mark.parametrize("step", ["split", "recommend", "sample", "pool"])
def test_help_has_examples(qrels, step):
    code, out, _ = qrels(step, "--help")
    assert code == 0
    assert f"gistbench qrels {step} -w" in out
