"""Budgets: what they read, what they count, when they are spent."""

import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.budget import Budget
from gistbench.runners.prices import Price, Prices
from gistbench.runners.requests import Outcome

SERVED = {"engine": "openai"}
PRICES = Prices({"priced": Price(match="^priced$", input=2, cached=1, output=10, date="2026-01-01", source="a test")})


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("5M tokens", (5e6, None, None)),
        ("2 gpu-hours", (None, 2, None)),
        ("1 GPU hour", (None, 1, None)),
        ("10 usd", (None, None, 10)),
        ("0.5usd", (None, None, 0.5)),
        ("10_000 tokens", (10_000, None, None)),
        ("1.5B tokens, 3 USD", (1.5e9, None, 3)),
        (["1k tokens", "2 gpu-hours"], (1000, 2, None)),
    ],
)
def test_budgets_are_read(text, limits):
    budget = Budget.parse(text)
    assert (budget.tokens, budget.gpu_hours, budget.money) == limits
    assert not budget.spent


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("5", "Write a number and a unit"),
        ("five tokens", "Write a number and a unit"),
        ("1,5 usd", "decimal mark"),
        ("-1 usd", "Write a number and a unit"),
        ("3 euros", "Write a number and a unit"),
        ("0 usd", "more than 0"),
        ("1 usd, 2 usd", "twice"),
    ],
)
def test_what_is_no_budget_is_refused(text, told):
    with pytest.raises(ConfigError, match=told):
        Budget.parse(text)


def test_tokens_of_every_attempt_count():
    budget = Budget(tokens=100)
    budget.begin("other", SERVED)
    budget.spend(Outcome("k", "error", n_prompt_tokens=40, final=False))
    assert budget.spent == ""
    budget.spend(Outcome("k", "ok", n_prompt_tokens=40, n_cached_tokens=30, n_output_tokens=20))
    assert budget.spent == "The budget of 100 tokens is spent (100 used)."


def test_money_is_counted_by_the_models_price():
    budget = Budget(money=5, prices=PRICES)
    budget.begin("priced", SERVED)
    counts = {"n_prompt_tokens": 1_000_000, "n_cached_tokens": 500_000, "n_output_tokens": 100_000}
    budget.spend(Outcome("k", "ok", **counts))
    assert budget.spent_money == pytest.approx(1 + 0.5 + 1)
    budget.end()
    budget.begin("weights/of-our-own", {"engine": "vllm", "n_gpus": 1})  # costs hours, and no money
    budget.spend(Outcome("k", "ok", **counts))
    assert budget.spent_money == pytest.approx(2.5)
    budget.begin("priced", SERVED)
    budget.spend(Outcome("k", "ok", n_output_tokens=250_000))
    assert "5 USD" in budget.spent


def test_money_without_a_price_is_told_before_anything_is_asked():
    budget = Budget(money=5, prices=PRICES)
    for tell in (budget.check, budget.begin):
        with pytest.raises(ConfigError, match=r"No price of other is known.*GISTBENCH_PRICES"):
            tell("other", SERVED)
    Budget(tokens=5, prices=PRICES).check("other", SERVED)


def test_prices_can_be_named_in_the_environment(tmp_path, monkeypatch):
    (tmp_path / "prices.toml").write_text(
        '[mine]\nmatch = "^other$"\ninput = 1\noutput = 2\ndate = "2026-01-01"\nsource = "a contract"\n'
    )
    monkeypatch.setenv("GISTBENCH_PRICES", str(tmp_path / "prices.toml"))
    budget = Budget(money=1)
    budget.begin("other", SERVED)
    budget.spend(Outcome("k", "ok", n_prompt_tokens=1_000_000))
    assert budget.spent
    assert Prices.load().find("gpt-5") is not None  # the package's own come after


def test_gpu_hours_are_wall_time_times_gpus():
    clock = Clock()
    budget = Budget(gpu_hours=2, clock=clock)
    clock.now = 3600.0  # nothing is on a GPU yet
    budget.begin("m", {"engine": "vllm", "n_gpus": 4})
    clock.now += 900
    budget.spend(Outcome("k", "ok"))
    assert budget.spent_gpu_hours == pytest.approx(1)
    budget.end()
    clock.now += 3600
    assert not budget.spent
    budget.begin("m", {"engine": "ray", "n_gpus": 0.5})
    clock.now += 7200
    assert "2 GPU hours" in budget.spent
