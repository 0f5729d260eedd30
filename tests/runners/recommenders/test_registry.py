import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.recommenders import registry
from gistbench.runners.recommenders.base import Recommender
from gistbench.runners.recommenders.registry import find_recommender, list_recommenders, load_settings, recommender


def write(tmp_path, text):
    path = tmp_path / "runs.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_there_are_21_algorithms_and_31_runs():
    settings = load_settings()
    assert len(list_recommenders()) == 21
    assert len(settings) == 31
    assert {one.algorithm for one in settings} == set(list_recommenders())


def test_the_first_setting_stands_for_its_algorithm():
    settings = load_settings()
    first = [one for one in settings if one.representative]
    assert len(first) == 21
    assert [one.name for one in first] == [one.algorithm for one in first]
    assert len({one.fingerprint() for one in settings}) == 31


def test_runs_are_chosen_by_name_in_the_order_of_the_file():
    assert [one.name for one in load_settings(names=["ease", "random"])] == ["random", "ease"]
    assert [one.representative for one in load_settings(names=["kld-50", "wsr-ub", "wsr-ub-50"])] == [
        True,
        False,
        True,
    ]
    with pytest.raises(ConfigError, match=r"no run 'puresdv'.* Did you mean 'puresvd'"):
        load_settings(names=["puresdv"])


def test_own_settings(tmp_path):
    text = '[[run]]\nname = "a"\nalgorithm = "wsr-ub"\nn_neighbours = 7\n[[run]]\nname = "b"\nalgorithm = "wsr-ub"\n'
    a, b = load_settings(write(tmp_path, text))
    assert (a.recommender.n_neighbours, a.representative, b.representative) == (7, True, False)
    assert a.fingerprint() != b.fingerprint()
    assert a.fingerprint(seed=1) != a.fingerprint(seed=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no runs"),
        ("[[run", "cannot be read"),
        ('[[run]]\nname = "a"\n', "name and algorithm must be texts"),
        ('[[run]]\nname = "a"\nalgorithm = "wsr"\n', "No recommender is called 'wsr'"),
        ('[[run]]\nname = "a/b"\nalgorithm = "random"\n', "it names a file"),
        ('[[run]]\nname = "a"\nalgorithm = "wsr-ub"\nk = 3\n', r"run 1 \(a\): k: Extra inputs are not permitted"),
        (
            '[[run]]\nname = "a"\nalgorithm = "wsr-ub"\nn_neighbours = 0\n',
            "n_neighbours: .* greater than or equal to 1",
        ),
        *(
            (
                f'[[run]]\nname = "a"\nalgorithm = "lm-wsr-{of}"\nsmoothing = "{smoothing}"\nsmoothing_weight = {w}\n',
                f"smoothing_weight is {w}; {smoothing} needs one below {w}",
            )
            for of in ("ub", "ib")
            for smoothing, w in (("jelinek-mercer", "1"), ("absolute-discounting", "0.5"))
        ),
        ('[[run]]\nname = "a"\nalgorithm = "random"\n' * 2, "another run is called 'a' already"),
    ],
)
def test_bad_settings(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        load_settings(write(tmp_path, text))


def test_a_new_algorithm_registers_with_a_decorator(monkeypatch):
    list_recommenders()
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))

    @recommender("mine")
    class Mine(Recommender):
        def fit(self, train, fitting):
            return lambda users: train[users].toarray()

        def fit_bytes(self, size):
            return 0

    assert find_recommender("mine") is Mine
    with pytest.raises(ConfigError, match="Two recommenders are called 'mine'"):

        @recommender("mine")
        class Other(Mine):
            pass
