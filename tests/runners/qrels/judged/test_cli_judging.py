import json
import sys
import warnings

import pytest
from gistbench.runners import cli, cli_judging, cli_qrels
from gistbench.runners.qrels.judged import Judged

# The command line prints these; here they would be errors.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def qrels(monkeypatch, capsys):
    """Run `gistbench qrels` in this process; return code, standard output, and standard error on one line."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    for console in (cli.err, cli_judging.out, cli_qrels.out, cli_qrels.err):
        monkeypatch.setattr(console, "_width", 200)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gistbench", "qrels", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            cli.main()
        stdout, stderr = capsys.readouterr()
        return done.value.code or 0, stdout, " ".join(stderr.split())

    return run


def test_step_by_step(qrels, pooled, simulate, tmp_path):
    asked = simulate(answer=lambda request: str(2 * request.repeat + 1) if request.repeat else None)
    work, model = pooled.path, "simulated:judge?temperature=1"
    code, out, err = qrels("induce", "-w", work, "-j", model)
    assert code == 0, err
    assert "Profiles of 20 of 20 users" in out
    code, out, err = qrels("judge", "-w", work, "-j", model, "--mode", "ipp", "--limit", 10)
    assert code == 3
    assert "Stopped after 10 calls (--limit 10). Everything answered so far is kept" in err
    code, out, _ = qrels("judge", "-w", work, "-j", model, "--mode", "ipp", "--samples", 2)
    assert code == 0
    assert "ipp" in out
    n_pairs = Judged(pooled, "judge@1").record("ipp")["n_pairs"]
    assert len(asked) == 20 + 2 * n_pairs
    code, out, _ = qrels("expand", "-w", work, "--hub-folder", tmp_path / "hub")
    assert code == 0
    assert (tmp_path / "hub" / "README.md").exists()
    assert (work / "expanded" / "judge@1" / "ipp.qrels").exists()
    code, out, _ = qrels("experiments", "-w", work, "-o", tmp_path / "out", "--resamples", 20)
    assert code == 0
    assert "Experiment 1: are the grades accurate enough?" in out
    assert "Judge: judge@1." in out
    assert "In brackets: 95 % intervals." in out
    assert (tmp_path / "out" / "tables.tex").exists()
    code, out, _ = qrels("uncertain", "-w", work, "-f", tmp_path / "todo.csv", "-n", 2)
    assert code == 0
    lines = (tmp_path / "todo.csv").read_text().splitlines()
    assert len(lines) == 3
    (tmp_path / "todo.csv").write_text("\n".join([lines[0], lines[1].removesuffix('""') + "3", lines[2]]) + "\n")
    code, out, _ = qrels("validate", "-w", work, "-f", tmp_path / "todo.csv")
    assert code == 0
    assert "1 grades taken in" in out
    code, out, _ = qrels("judge", "-w", work, "-j", "simulated:other", "--mode", "ipp", "--profiles-of", "judge@1")
    assert code == 0
    code, out, err = qrels("panel", "-w", work, "--name", "judge@1", "--name", "other@1", "--mode", "ipp")
    assert code == 0, err
    assert "panel-dawid-skene" in out


def test_grades_of_an_older_pool_are_named_and_left_out(qrels, pooled, simulate, tmp_path, caplog):
    simulate()
    work = pooled.path
    for name, mode in (("simulated:old", "ipp"), ("simulated:judge", "ipp"), ("simulated:judge", "profile")):
        if mode == "ipp":
            assert qrels("induce", "-w", work, "-j", name)[0] == 0
        assert qrels("judge", "-w", work, "-j", name, "--mode", mode)[0] == 0
    assert qrels("pool", "-w", work, "--depth", 5)[0] == 0
    assert qrels("judge", "-w", work, "-j", "simulated:judge", "--mode", "ipp")[0] == 0
    for command in (
        ("expand", "--hub-folder", tmp_path / "hub"),
        ("experiments", "-o", tmp_path / "out", "--resamples", 0),
        ("experiments", "-o", tmp_path / "out", "--resamples", 0, "--name", "judge@1"),
        ("uncertain", "-f", tmp_path / "todo.csv"),
    ):
        caplog.clear()
        code, _, err = qrels(command[0], "-w", work, *command[1:])
        assert code == 0, err
        told = [message.partition(" was made from another pool")[0] for message in caplog.messages]
        old = [] if "--name" in command else [f"Left out: {work / 'judged' / 'old@1' / 'ipp.json'}"]
        assert [message for message in told if "Left out" in message] == [
            f"Left out: {work / 'judged' / 'judge@1' / 'profile.json'}", *old
        ]  # fmt: skip
    assert [path.name for path in (tmp_path / "hub" / "data").iterdir()] == ["judge_at_1.ipp.parquet"]
    for command in (("expand",), ("experiments",), ("uncertain", "-f", tmp_path / "todo.csv")):
        code, _, err = qrels(command[0], "-w", work, "--name", "old@1", *command[1:])
        assert code == 1
        assert "was made from another pool. Run `gistbench qrels judge" in err


def test_run_goes_on_where_other_grades_are_of_an_older_pool(qrels, ratings_csv, items_csv, simulate, tmp_path):
    simulate()
    work = tmp_path / "w"
    command = ["run", "-w", work, "--dataset", ratings_csv, "--items", items_csv, "--run", "random", "--run",
               "popularity", "--run", "wsr-ub", "-j", "simulated:judge", "--resamples", 0, "--depth", 5]  # fmt: skip
    assert qrels(*command, "--take", 10)[0] == 0
    code, _, err = qrels(*command, "--take", 12, "--mode", "ipp")
    assert code == 0, err
    assert "Left out" not in err
    tables = (work / "experiments" / "table_4.csv").read_text()
    assert ",IPP," in tables
    assert "Profile" not in tables


def test_run_makes_all_steps_and_goes_on(qrels, ratings_csv, items_csv, simulate, tmp_path):
    asked = simulate()
    command = ["run", "-w", tmp_path / "w", "--dataset", ratings_csv, "--items", items_csv, "--take", 15, "--depth", 5,
               "--run", "random", "--run", "popularity", "--run", "wsr-ub", "--run", "wsr-ub-50", "-j",
               "simulated:judge", "--resamples", 10]  # fmt: skip
    code, _, err = qrels(*command, "--limit", 40)
    assert code == 3
    assert len(asked) == 40
    code, out, err = qrels(*command)
    assert code == 0, err
    assert "Experiment 3" in out
    n = len(asked)
    assert len({request.key for request in asked}) == n, "nothing was asked twice"
    folder = tmp_path / "w"
    assert json.loads((folder / "judged" / "judge@1" / "ipp+profile.json").read_text())["n_failed"] == 0
    assert (folder / "experiments" / "tables.md").exists()
    assert (folder / "expanded" / "judge@1" / "profile.parquet").exists()
    code, _, _ = qrels(*command)
    assert code == 0
    assert len(asked) == n


def test_errors_are_one_message(qrels, pooled, simulate):
    simulate()
    for arguments, message in (
        (("judge", "-j", "lexical/overlap"), "name a language model"),
        (("judge", "-j", "simulated:x", "--mode", "both"), "There is no mode 'both'"),
        (("judge", "-j", "simulated:x", "--plots", "some"), "--plots some"),
        (("judge", "-j", "simulated:x", "--pairs", "half"), "--pairs half"),
        (("judge", "-j", "simulated:x", "--samples", "2"), "2 samples at temperature 0 are one sample"),
        (("judge", "-j", "simulated:x", "--mode", "ipp"), "has no profiles. Run `gistbench qrels induce"),
        (("expand",), "No judge graded pairs"),
        (("experiments", "--name", "nobody"), "has no grades"),
        (("experiments", "--name", "../x"), "cannot name a judge"),
        (("expand", "--push", "me/x"), "--push needs --hub-folder"),
    ):
        code, _, err = qrels(arguments[0], "-w", pooled.path, *arguments[1:])
        assert code == 1, arguments
        assert message in err


@pytest.mark.parametrize("step", ["induce", "judge"])
def test_a_folder_that_is_not_there_is_not_made(qrels, simulate, tmp_path, step):
    simulate()
    code, _, err = qrels(step, "-w", tmp_path / "typo", "-j", "simulated:x")
    assert code == 1
    assert "has no pool.json" in err
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("step", ["induce", "judge", "expand", "experiments", "panel", "uncertain", "validate", "run"])
def test_help_has_examples(qrels, step):
    code, out, _ = qrels(step, "--help")
    assert code == 0
    assert f"gistbench qrels {step} -w" in out
