"""Plans against what runs really ask, and against whole prompts."""

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from gistbench.hf_datasets.errors import ConfigError
from gistbench.hf_datasets.results_published import published_value
from gistbench.runners.cli_plan import plan as plan_command
from gistbench.runners.cli_plan import plan_qrels as plan_qrels_command
from gistbench.runners.config import RunConfig
from gistbench.runners.data import load_data
from gistbench.runners.plan import Expectations, plan_run, published_output_tokens
from gistbench.runners.plan_data import expect_interests, load_plan_data, published_rate
from gistbench.runners.plan_probe import probe
from gistbench.runners.plan_qrels import plan_expansion
from gistbench.runners.plan_stages import chunks_per_user
from gistbench.runners.prices import Prices
from gistbench.runners.suite import Suite
from gistbench.runners.throughput import Throughput
from typer.testing import CliRunner

CANDIDATES = ("lexical/hashtag", "lexical/tfidf", "lexical/phrase")
LARGE = "meta-llama/Llama-3.3-70B-Instruct"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    suite = Suite(tmp_path_factory.mktemp("plan") / "demo", RunConfig(candidates=CANDIDATES))
    suite.run()
    return suite


@pytest.fixture
def tokenizer(repo_root):
    """SmolLM2's folder, which scripts/cpu_engine.sh makes."""
    found = sorted((repo_root / ".cache" / "models").glob("SmolLM2*/tokenizer.json"))
    if not found:
        pytest.skip("needs SmolLM2 (scripts/cpu_engine.sh makes it available)")
    return str(found[0].parent)


def test_prompts_are_those_of_a_real_run_with_its_interests(demo):
    for run, candidate in zip(demo.runs, CANDIDATES, strict=True):
        planned = plan_run(demo.config.model_copy(update={"candidates": (candidate,)}), Expectations(like=run))
        phases = run.manifest["phases"]
        asked = {
            stage: account["n_subjects"]
            for phase in ("extract", "judge")
            for stage, account in phases[phase]["stages"].items()
        }
        assert {stage.stage: stage.n_prompts for stage in planned.stages} == asked
        assert planned.total().n_prompts == sum(asked.values())


def test_prompts_are_those_of_a_real_run_with_a_short_context(scripted, overlap_judge, tmp_path):
    judge = scripted("judge", overlap_judge(), context_tokens=12_000)
    config = RunConfig(candidates=("lexical/hashtag",), judge=judge)
    suite = Suite(tmp_path / "suite", config)
    suite.extract()
    suite.judge()
    # The plan knows a context from the model's options; vLLM's has one.
    planned = plan_run(
        config.model_copy(update={"judge": "vllm:org/judge?max_model_len=12000"}), Expectations(like=suite.runs[0])
    )
    asked = suite.runs[0].manifest["phases"]["judge"]["stages"]
    assert asked["shortlist"]["n_subjects"] > 12  # more than one part of the pool for each user
    assert {s.stage: s.n_prompts for s in planned.stages[1:]} == {s: a["n_subjects"] for s, a in asked.items()}


def test_light_data_are_those_of_a_run(own_file):
    config = RunConfig(dataset=str(own_file), n_users=2, pool_size=50)
    light, full = load_plan_data(config), load_data(config)
    assert light.histories.users == full.histories.users
    assert light.histories.object_ids == full.histories.object_ids
    assert light.histories.texts == full.histories.texts
    assert light.histories.signals == full.histories.signals
    assert (light.pool.object_ids, light.pool.texts) == (full.pool.object_ids, full.pool.texts)
    for user in light.histories.users:
        for ours, theirs in zip(light.histories.engagements_of(user), full.histories.engagements_of(user), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_characters_of_every_prompt_add_up(demo):
    # One character per token makes the estimate exact, so sums over a run are those of its prompts.
    planned = plan_run(demo.config, Expectations(like=demo.runs[0], chars_per_token=1))
    assert [stage.sampled_error for stage in planned.stages] == [0] * len(planned.stages)
    assert all(stage.n_sampled for stage in planned.stages)


def test_tokens_are_those_of_whole_prompts_within_the_sampled_error(tokenizer):
    planned = plan_run(
        RunConfig(candidates=(f"vllm:{tokenizer}",), judge=f"vllm:{tokenizer}"), Expectations(interests_per_user=4)
    )
    assert [stage.stage for stage in planned.stages] == ["extract", "ground", "shortlist", "retrieve", "map"]
    for stage in planned.stages:
        assert abs(stage.sampled_error) < 0.01
        assert 0 < stage.n_sampled <= stage.n_prompts
    assert any("the tokenizer of SmolLM2" in note for note in planned.notes)


def test_every_prompt_of_a_stage_adds_up_to_its_tokens(tokenizer):
    from gistbench.runners.engines import parse_model
    from gistbench.runners.plan import _askers
    from gistbench.runners.plan_stages import ObjectTokens, count_extract
    from gistbench.runners.plan_tokens import find_counter
    from gistbench.runners.stages.extract import Extract

    model = parse_model(f"vllm:{tokenizer}")
    data, counter = load_plan_data(RunConfig()), find_counter(model)
    asker = _askers(model)["extract"]
    count = count_extract(asker, data, ObjectTokens(counter, data), chunk_size=40, history_length=90)
    stage = Extract(asker, data.histories, chunk_size=40, history_length=90)
    whole = counter.count([counter.chat(stage.request(subject).messages) for subject in stage.subjects()])
    assert len(whole) == count.n_prompts
    assert count.n_prompt_tokens == pytest.approx(whole.sum(), rel=max(count.worst_error, 1e-4))


def test_prompts_that_do_not_fit_are_counted(tokenizer):
    planned = plan_run(RunConfig(candidates=(f"vllm:{tokenizer}?max_model_len=2048",)), Expectations())
    extract = planned.stages[0]
    assert extract.n_too_long == extract.n_prompts == 12


def test_the_pool_is_shared_by_users_and_what_varies_is_not(tokenizer):
    planned = plan_run(
        RunConfig(candidates=("lexical/hashtag",), judge=f"vllm:{LARGE}?max_model_len=131072"),
        Expectations(tokenizer=tokenizer, interests_per_user=3),
    )
    shared = {stage.stage: stage.shared_share for stage in planned.stages}
    assert shared["shortlist"] > 0.9  # 11 of 12 users find the pool in the cache
    assert shared["retrieve"] < 0.1
    assert all(stage.n_shared_tokens <= stage.n_prompt_tokens for stage in planned.stages)


def test_interests_per_user_are_a_parameter():
    config = RunConfig(candidates=("lexical/hashtag",))
    planned = plan_run(config, Expectations(interests_per_user=2.5, cited_per_interest=4))
    by_stage = {stage.stage: stage.n_prompts for stage in planned.stages}
    assert by_stage == {"extract": 12, "ground": 30, "shortlist": 12, "retrieve": 30, "map": 10}


def test_interests_are_else_as_in_the_papers_tables():
    rate, source = published_rate("meta-llama/Llama-3.1-8B-Instruct")
    assert rate == pytest.approx(68_496 / 66_212)
    assert "Llama-3.1-8B-Instruct" in source
    mean, source = published_rate("org/unheard-of")
    assert mean == pytest.approx((35_550 + 37_960 + 48_040 + 61_400 + 65_290 + 68_496) / 6 / 66_212)
    assert "six" in source
    data = load_plan_data(RunConfig())
    chunks = chunks_per_user(data, 10, None)
    interests = expect_interests(data, chunks, per_chunk=(0.5, "half"))
    assert interests.n == pytest.approx(chunks.sum() / 2, abs=len(chunks))
    assert (interests.per_user >= 1).all()


def test_answers_are_as_long_as_in_the_papers_tables_unless_given():
    config = RunConfig(candidates=("vllm:org/model?max_model_len=32768",))
    planned = plan_run(config, Expectations(output_tokens={"ground": 7}, interests_per_user=1))
    extract = planned.stages[0]
    assert extract.n_output_tokens == round(260.6e6 / 66_212 * 12)
    assert published_output_tokens("map") == pytest.approx(2.2e6 / 156_083)
    judged = plan_run(
        RunConfig(candidates=("lexical/hashtag",), judge="vllm:org/judge?max_model_len=32768"),
        Expectations(output_tokens={"ground": 7}, interests_per_user=1),
    )
    assert judged.stages[1].n_output_tokens == 7 * 12


def test_the_packaged_speed_is_the_fit_of_tables_25_and_26():
    passes = {
        "IG evidence relevance (Sec. 4.2)": "IG evidence relevance filtering (Section 4.2)",
        "IS distractor filtering (Sec. 4.3)": "IS distractor-pool overlap filtering (Section 4.3)",
        "IS retrieval (Sec. 4.3)": "IS retrieval (Section 4.3)",
        "Taxonomy mapping (Sec. 4.4)": "Interest-to-taxonomy mapping (Section 4.4)",
    }
    tokens = np.array([[published_value("Table 25", p, c) for c in ("Input tok.", "Output tok.")] for p in passes])
    seconds = 3600 * np.array([published_value("Table 26", p, "H100-hours") for p in passes.values()])
    fitted = 1 / np.linalg.lstsq(tokens / seconds[:, None], np.ones(4), rcond=None)[0]
    rate = Throughput.load().find(LARGE, "H100")
    ours = np.array([rate.prefill_tokens_per_second, rate.decode_tokens_per_second])
    np.testing.assert_allclose(ours, fitted, rtol=0.005)
    np.testing.assert_allclose((tokens / ours).sum(axis=1), seconds, rtol=0.07)


def test_speeds_are_measured_scaled_or_unknown():
    table = Throughput.load()
    measured, guess = table.find(LARGE, "H100"), table.find("meta-llama/Llama-3.1-8B-Instruct", "H100")
    assert guess.decode_tokens_per_second == pytest.approx(measured.decode_tokens_per_second * 70.6 / 8)
    assert guess.source.startswith("a guess")
    assert table.find(LARGE, "A100") is None
    assert table.find("org/unheard-of", "H100") is None
    planned = plan_run(RunConfig(candidates=("vllm:org/unheard-of",)))
    assert planned.stages[0].gpu_hours is None
    assert any("No speed of org/unheard-of" in note for note in planned.notes)


def test_money_is_of_known_prices_only(tmp_path):
    config = RunConfig(candidates=("openai:unheard-of",))
    planned = plan_run(config)
    assert planned.stages[0].usd is None
    assert planned.total().usd is None
    assert any("No price of unheard-of" in note for note in planned.notes)
    priced = plan_run(config, Expectations(prices=Prices.load(price_in=2, price_out=10))).stages[0]
    assert priced.usd == pytest.approx((2 * priced.n_prompt_tokens + 10 * priced.n_output_tokens) / 1e6, rel=1e-4)
    own = tmp_path / "prices.toml"
    own.write_text('[x]\nmatch = "unheard"\ninput = 1\noutput = 1\ndate = "2026-01-01"\nsource = "the invoice"\n')
    assert Prices.load(own).find("unheard-of").source == "the invoice"
    own.write_text('[x]\nmatch = "unheard"\ninput = 1\n')
    with pytest.raises(ConfigError, match="'x' cannot be used"):
        Prices.load(own)
    with pytest.raises(ConfigError, match="go together"):
        Prices.load(price_in=1)


def test_packaged_prices_have_dates_and_sources():
    for price in Prices.load().by_name.values():
        assert price.date.startswith("20")
        assert "http" in price.source
        assert 0 < price.input < price.output


def test_a_probe_goes_before_what_is_assumed(scripted, overlap_judge):
    answer = json.dumps([{"interest": "Trains", "item_ids": []}, {"interest": "Birds", "item_ids": []}])
    candidate = scripted("candidate", lambda request: answer)
    config = RunConfig(candidates=(candidate,), judge=scripted("judge", overlap_judge()))
    data = load_plan_data(config)
    probed = probe(config, data, 3)
    assert probed.stage("extract", "candidate").n_prompts == 3
    assert probed.interests("candidate").per_chunk[0] == 2
    planned = plan_run(config, data=data, probed=probed)
    assert planned.stages[0].n_output_tokens == len(answer.split()) * 12
    by_stage = {stage.stage: stage.n_prompts for stage in planned.stages}
    assert by_stage["shortlist"] == 12
    assert by_stage["map"] == 24 // 3
    assert len(scripted.asked["candidate"]) == 4  # one of them warms up


def test_probed_hours_are_in_proportion_to_tokens():
    from gistbench.runners.plan_probe import Measured

    measured = Measured(10, 900, 100, seconds=36.0, n_gpus=2, hardware="H100")
    assert measured.hours(9_000, 1_000) == pytest.approx(0.2)
    assert Measured(10, 0, 0, 1.0, 0, "x").hours(1, 1) is None


def test_a_plan_without_candidates_or_with_a_wrong_role_is_refused():
    with pytest.raises(ConfigError, match="No candidate"):
        plan_run(RunConfig())
    with pytest.raises(ConfigError, match="cannot be a candidate"):
        plan_run(RunConfig(candidates=("lexical/overlap",)))


def test_a_plan_comes_in_every_form():
    planned = plan_run(RunConfig(candidates=("lexical/hashtag",)))
    parsed = json.loads(planned.json())
    assert [row["stage"] for row in parsed["stages"]] == ["extract", "ground", "shortlist", "retrieve", "map"]
    assert parsed["total"]["n_prompts"] == planned.total().n_prompts
    assert planned.csv().splitlines()[0].startswith("stage,model,candidate,n_prompts")
    assert planned.frame()["n_prompts"].iloc[-1] == planned.total().n_prompts
    assert planned.markdown().count("\n| ") == 7
    assert "characters per token" in planned.markdown()


def test_plan_qrels_counts_users_and_pairs():
    planned = plan_expansion("openai:gpt-5", n_users=500, n_pairs=400_000, n_profile_items=50)
    rows = {stage.stage: stage for stage in planned.stages}
    assert {name: row.n_prompts for name, row in rows.items()} == {
        "induce": 500, "judge ipp": 400_000, "judge profile": 400_000, "judge ipp+profile": 400_000,
    }  # fmt: skip
    assert rows["judge ipp"].n_prompt_tokens == 400_000 * (400 + 450 + 25)
    assert rows["judge ipp"].shared_share > 0.9
    assert planned.total().usd > 0
    bound = plan_expansion("openai:gpt-5", n_users=2, modes=["ipp"], item_texts=["Alien (1979)"])
    assert bound.stages[1].n_prompts == 2 * 31 * 100
    assert any("no pool exceeds" in note for note in bound.notes)
    with pytest.raises(ConfigError, match="no mode 'plot'"):
        plan_expansion("openai:gpt-5", modes=["plot"])
    with pytest.raises(ConfigError, match="1 or more"):
        plan_expansion("openai:gpt-5", n_users=0)


@pytest.fixture(scope="module")
def app():
    app = typer.Typer()
    app.command("plan")(plan_command)
    app.command("qrels-plan")(plan_qrels_command)
    return app


def test_the_command_prints_plans(app, tmp_path):
    runner = CliRunner()
    shown = runner.invoke(app, ["plan", "--candidate", "lexical/hashtag", "--users", "3"])
    assert shown.exit_code == 0, shown.output
    assert "extract" in shown.output
    assert "3 users" in shown.output
    shown = runner.invoke(
        app, ["plan", "--candidate", "lexical/hashtag", "--format", "json", "--interests-per-user", "2"]
    )
    assert json.loads(shown.output)["stages"][1]["n_prompts"] == 24
    shown = runner.invoke(app, ["qrels-plan", "--judge", "openai:gpt-5", "--pairs", "1000", "--format", "csv"])
    assert shown.output.splitlines()[1].startswith("induce,gpt-5")
    assert "Examples" in runner.invoke(app, ["plan", "--help"]).output
    assert not list(Path(tmp_path).iterdir())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--format", "pdf"), "There is no format 'pdf'."),
        (("--chars-per-token", "0"), "--chars-per-token 0: it must be above 0."),
        (("--probe", "0"), "--probe 0: give the number of prompts of each stage, 1 or more."),
        (("--interests-per-user", "-1"), "--interests-per-user -1: give a number, 0 or more, or leave it out."),
        (("--interests-per-user", "nan"), "--interests-per-user nan: give a number"),
        (("--cited-per-interest", "-3"), "--cited-per-interest -3: give a number, 0 or more, or leave it out."),
        (("--output-tokens", "ground=x"), "--output-tokens ground='x': expected STAGE=NUMBER."),
        (
            ("--output-tokens", "foo=1"),
            "--output-tokens foo=1: there is no such stage. There are: extract, ground, shortlist, retrieve, map.",
        ),
        (("--gpu", "foo"), "--gpu foo: no speed on it is known. Known: H100."),
        (("--like", "nosuch"), "--like nosuch: there is no run folder. Name the folder of a candidate in a suite"),
        (("--sample", "odd"), "--sample 'odd': there are random, stratified."),
        (("--profiles", "gone.toml"), "gone.toml"),
    ],
)
def test_what_cannot_be_planned_is_refused(app, wrong, message):
    failed = CliRunner().invoke(app, ["plan", "--candidate", "lexical/hashtag", *wrong])
    assert isinstance(failed.exception, ConfigError)
    assert message in str(failed.exception)


def test_stages_of_an_expansion_are_others(app):
    planned = ["qrels-plan", "--judge", "openai:gpt-5", "--pairs", "10", "--output-tokens"]
    assert CliRunner().invoke(app, [*planned, "induce=9"]).exit_code == 0
    failed = CliRunner().invoke(app, [*planned, "ground=9"])
    assert "There are: induce, judge." in str(failed.exception)


def test_a_plan_samples_as_a_run_does(app):
    """The light data of a plan hold the users that a run would draw."""
    drawn = {}
    for sample in ("random", "stratified"):
        config = RunConfig(dataset="planted", dataset_options={"n_users": 40}, n_users=4, sample=sample)
        drawn[sample] = load_plan_data(config).n_engagements
        flags = ["--dataset", "planted", "--dataset-option", "n_users=40", "--users", "4", "--sample", sample]
        shown = CliRunner().invoke(app, ["plan", "--candidate", "lexical/hashtag", *flags, "-f", "json"])
        assert f"4 users, {drawn[sample]:,} engagements" in shown.output


@pytest.mark.parametrize("given", [{"per_user": -1.0}, {"cited_per_interest": float("nan")}])
def test_numbers_of_interests_are_not_negative(given):
    data = load_plan_data(RunConfig())
    with pytest.raises(ConfigError, match="give a number, 0 or more"):
        expect_interests(data, np.ones(len(data.histories.users), np.int64), per_chunk=(1.0, "x"), **given)
