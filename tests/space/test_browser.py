"""The leaderboard in a real browser: what a reader does, at a desk and on a phone; pictures of it to look at.

One server and one browser for all of them. `scripts/browser.sh` makes both of what is needed available.
"""

import csv
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: sh scripts/browser.sh (as root)")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 60_000
PICTURES = "runs/screenshots"  # git-ignored
EVIL = "<img src=x onerror=window.hacked=1>${window.hacked=2}{{7*7}}"


def qrels_tables(folder):
    """Write tables of an expansion, by the names and in the columns of `gistbench qrels experiments`."""
    folder.mkdir(parents=True)
    ranks, systems = (
        ["judge,mode,plot,ranking,condition,system,rank"],
        ["judge,mode,plot,ranking,condition,system,arp,ndcg,ap"],
    )
    for c, condition in enumerate(("human", "synthetic", "augmented")):
        for at, system in enumerate(("ease", "kld", "popularity", "random")):
            setting = f"judge@1,IPP,w/o plot,all runs,{condition},{system}"
            ranks.append(f"{setting},{1 + (at * (1 + c)) % 5}")
            systems.append(f"{setting},{40 * at + 10 * c},{0.2 + at / 9 + c / 50},0.1")
    (folder / "rank_shifts-ranks.csv").write_text("\n".join(ranks))
    (folder / "effectiveness-systems.csv").write_text("\n".join(systems))
    (folder / "table_4.csv").write_text("judge,mode,mae,kappa\njudge@1,IPP,0.61,0.42\n=1+1,<b>P</b>,0.7,0.31\n")


@pytest.fixture(scope="module")
def evil_results(results, tmp_path_factory):
    """Results in which a model's own words try to be more than words; with tables of a qrels expansion."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(shutil.copytree(results, tmp_path_factory.mktemp("evil") / "results"))
    qrels_tables(folder / "qrels" / "ml")
    (record,) = folder.glob("records/demo/lexical--tfidf*/*")
    for name in ("interests", "extractions", "groundings", "retrievals"):
        table = pq.read_table(record / f"{name}.parquet")
        rows = table.to_pylist()
        wanted = sorted({row["interest"] for row in rows if row["user_id"] == "u01"})[0]
        for row in rows:
            if row["interest"] == wanted:
                row["interest"] = EVIL
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), record / f"{name}.parquet")
    return folder


@pytest.fixture(scope="module")
def url(evil_results, repo_root, tmp_path_factory):
    """The page, served as the Hub serves it: a script in a folder of its own."""
    from gistbench.runners.space_hub import space_files

    folder = tmp_path_factory.mktemp("space")
    for place, path in space_files().items():
        (folder / place).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, folder / place)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "GISTBENCH_RESULTS": str(evil_results),
        "GISTBENCH_METRICS": str(repo_root / "metrics"),
        "GISTBENCH_REFRESH": "1",
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "GRADIO_SERVER_PORT": str(port),
        "HF_HUB_OFFLINE": "1",
    }
    server = subprocess.Popen([sys.executable, "app.py"], cwd=folder, env=environment)
    address = f"http://127.0.0.1:{port}/"
    for _ in range(600):
        try:
            urllib.request.urlopen(address, timeout=5).read()
            break
        except OSError:
            assert server.poll() is None, "the page did not start"
            time.sleep(0.2)
    yield address
    server.terminate()
    server.wait()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def outside():
    return []


@pytest.fixture
def page(browser, url, outside):
    """A page at a desk's width, that notes every request to elsewhere and every error."""
    yield from opened_page(browser, url, outside, width=1280)


@pytest.fixture
def phone(browser, url, outside):
    yield from opened_page(browser, url, outside, width=390)


def opened_page(browser, url, outside, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    inside = (url, "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(inside) else outside.append(request.url))
    page.on("pageerror", lambda error: outside.append(f"error: {error}"))
    yield page
    assert outside == []  # no request to anyone else, no error
    assert page.evaluate("window.hacked") is None
    context.close()


def go(page, url, query=""):
    page.goto(url + query)
    page.wait_for_selector("table.board tbody tr", state="attached")


def tab(page, name):
    found = page.get_by_role("tab", name=name, exact=True)
    if found.is_visible():
        found.click()
    else:  # on a phone, the last ones are behind a button
        page.locator("#tabs .overflow-menu > button").first.click()
        page.locator("#tabs .overflow-dropdown button", has_text=name).click()


def keep(page, repo_root, name):
    folder = repo_root / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(800)  # pictures are drawn
    page.screenshot(path=folder / f"{name}.png", full_page=True)


def choose(page, label, option):
    page.get_by_label(label, exact=True).first.click()
    page.get_by_role("option", name=option, exact=True).click()


def test_open_filter_sort_and_come_back_by_the_address(page, url, browser):
    go(page, url)
    rows = page.locator("table.board tbody tr")
    expect(rows.first).to_contain_text("lexical/hashtag")
    n_all = rows.count()
    choose(page, "Data set", "demo")
    expect(rows).to_have_count(3)
    assert n_all > 3
    page.get_by_role("button", name="Model", exact=True).click()
    heading = page.locator("table.board th[aria-sort=ascending]")
    expect(heading).to_contain_text("Model")
    page.get_by_label("Search").press_sequentially("lexical tf")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile("q=lexical"))
    assert "data=demo" in page.url
    assert "sort=model" in page.url
    cited = page.locator("#cite textarea, #cite input")
    expect(cited).to_have_value(re.compile(re.escape(page.url)))
    again = page.context.new_page()
    go(again, page.url)
    expect(again.locator("table.board tbody tr")).to_have_count(1)
    expect(again.get_by_label("Search")).to_have_value("lexical tf")


def test_published_rows_are_marked(page, url):
    go(page, url, "?origin=published")
    row = page.locator("table.board tbody tr", has_text="GPT-5").first
    expect(row.locator(".badge")).to_have_text("published")
    expect(row.locator(".badge")).to_have_attribute("title", re.compile("not comparable to the digit"))


def test_download_is_what_is_looked_at(page, url, tmp_path):
    go(page, url, "?data=demo&sort=is")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download as csv").click()
    path = tmp_path / "board.csv"
    waiting.value.save_as(path)
    with path.open(encoding="utf-8") as file:
        assert {row["dataset"] for row in csv.DictReader(file)} == {"demo"}


@pytest.mark.slow
def test_columns_and_the_matrix(page, url):
    go(page, url)
    page.get_by_text("Columns, order and layout").click()
    page.get_by_label("Precision", exact=True).check()
    expect(page.locator("table.board th", has_text="Precision")).to_be_visible()
    page.get_by_label("models × data sets").check()
    expect(page.locator("table.board thead")).to_contain_text("kuairec")
    expect(page).to_have_url(re.compile("layout=matrix"))


@pytest.mark.slow
def test_every_picture_has_its_sentence(page, url, repo_root):
    go(page, url, "?tab=pictures&data=demo")
    for name, said in (
        ("Precision and recall", "dotted line"),
        ("Forest plot", "Where intervals overlap"),
        ("Cost and score", "no cost to show"),
        ("Failure modes", "interest that failed"),
        ("Domains", "bright is strong"),
        ("History length", "whole histories"),
        ("Threshold settings", "less or more evidence"),
    ):
        page.get_by_label(name, exact=True).check()
        expect(page.locator("#sentence")).to_contain_text(said)
        expect(page.locator("#picture .js-plotly-plot")).to_be_visible()


def test_a_models_page_and_the_evidence_for_a_user(page, url, repo_root):
    go(page, url, "?data=demo")
    page.locator("table.board").get_by_role("button", name="lexical/tfidf").click()
    expect(page.locator("#modelpage h2")).to_contain_text("lexical/tfidf")
    expect(page.locator("#modelpage")).to_contain_text("gistbench run --output")
    expect(page.locator("#modelpage")).to_contain_text("prompt ground")
    expect(page.locator("#spread .js-plotly-plot")).to_be_visible()
    choose(page, "User", "u01")
    evil = page.locator("#evidence summary", has_text="onerror")
    expect(evil).to_contain_text(EVIL)  # word for word, and only words
    evil.click()
    first = page.locator("#evidence details[open]")
    expect(first).to_contain_text("IS test set")
    expect(first).to_contain_text("backing, picked")
    expect(first).to_contain_text("relevant items: ")
    expect(page).to_have_url(re.compile("user=u01"))
    keep(page, repo_root, "model-1280")
    again = page.context.new_page()
    again.goto(page.url)
    expect(again.locator("#evidence summary").first).to_be_visible()
    expect(again.locator("#modelpage h2")).to_contain_text("lexical/tfidf")


def test_two_models_beside_each_other(page, url, repo_root, snapshot):
    ids = snapshot.measured.set_index("model")["id"]
    go(page, url, f"?tab=compare&a={ids['lexical/hashtag']}&b={ids['lexical/tfidf']}")
    table = page.locator("#compared table").first
    expect(table).to_contain_text("IG F1")
    expect(table).to_contain_text("95 % interval")
    expect(page.locator("#compared")).to_contain_text("the interval holds 0")
    keep(page, repo_root, "compare-1280")


def test_qrels_expansion(page, url, repo_root):
    go(page, url, "?tab=qrels")
    expect(page.locator("#qrels")).to_contain_text("table 4")
    expect(page.locator("#qrels")).to_contain_text("Published, Table 4")
    expect(page.locator("#bump .js-plotly-plot")).to_be_visible()
    expect(page.locator("body")).to_contain_text("judge@1, all runs, IPP, w/o plot.")
    expect(page.locator("#popularity .js-plotly-plot")).to_be_visible()
    keep(page, repo_root, "qrels-1280")


def submit(page, files):
    with page.expect_file_chooser() as waiting:
        page.locator("#files button").first.click()
    waiting.value.set_files(files)
    names = {Path(file).name for file in files}
    expect(page.locator("#files .file-preview tr, #files .file")).to_have_count(len(names))
    page.get_by_role("button", name="Check", exact=True).click()


def test_a_good_submission(page, url, submission, repo_root, tmp_path):
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in submission():
            archive.write(file, f"run/{file.name}")
    go(page, url, "?tab=submit")
    submit(page, [path])
    verdict = page.locator("#verdict")
    expect(verdict).to_contain_text("The records hold together", timeout=3 * PATIENCE)
    expect(verdict).to_contain_text("self-judged")
    expect(verdict).to_contain_text("lexical/hashtag")
    keep(page, repo_root, "submit-good-1280")


def no_name(manifest):
    manifest["candidate"]["name"] = "<script>window.hacked=1</script>"
    return manifest


BAD = {
    "no zip": (None, "cannot be read"),
    "a bomb": ("bomb", "would unpack to"),
    "a path": ("path", "leaves its folder"),
    "a script in a name": ({"manifest": no_name}, "name may hold letters"),
    "forged evidence": (
        {"groundings": lambda rows: [{**rows[0], "relevant_item_ids": ["v9999"]}, *rows[1:]]},
        "an item that the interest does not cite",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_five_bad_submissions(page, url, submission, repo_root, tmp_path, what):
    changes, said = BAD[what]
    path = tmp_path / "run.zip"
    if changes is None:
        path.write_bytes(b"no zip at all")
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            if isinstance(changes, dict):
                for file in submission(**changes):
                    archive.write(file, file.name)
            elif changes == "bomb":
                archive.writestr("users.parquet", b"\0" * 20_000_000)
            else:
                archive.writestr("../../users.parquet", b"x")
    go(page, url, "?tab=submit")
    submit(page, [path])
    expect(page.locator("#verdict [role=alert]")).to_contain_text(said, timeout=3 * PATIENCE)
    expect(page.locator("#verdict")).to_contain_text("Not accepted")
    if what == "forged evidence":
        keep(page, repo_root, "submit-bad-1280")


@pytest.mark.slow
def test_newer_results_appear_without_a_restart(page, url, evil_results):
    go(page, url)
    aside = evil_results / "index.aside"
    (evil_results / "index.parquet").rename(aside)
    page.wait_for_timeout(2500)
    page.get_by_role("button", name="Next ›").click()
    expect(page.locator("#notice [role=alert]")).to_contain_text("They are still shown")
    expect(page.locator("table.board tbody tr").first).to_be_visible()
    aside.rename(evil_results / "index.parquet")
    page.wait_for_timeout(2500)
    page.get_by_role("button", name="Next ›").click()
    expect(page.locator("#notice [role=alert]")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_sideways_scrolling(phone, url, repo_root, scheme):
    phone.emulate_media(color_scheme=scheme)
    for name in ("leaderboard", "pictures", "compare", "qrels", "submit", "about"):
        go(phone, url, f"?tab={name}")
        phone.wait_for_timeout(1500)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390, name
        keep(phone, repo_root, f"{name}-390-{scheme}")


@pytest.mark.slow
def test_a_desk_in_light_and_dark(page, url, repo_root):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for name in ("leaderboard", "pictures", "about"):
            go(page, url, f"?tab={name}")
            page.wait_for_timeout(1000)
            keep(page, repo_root, f"{name}-1280-{scheme}")


@pytest.mark.slow
def test_what_a_screen_reader_is_told(page, url):
    go(page, url, "?data=demo")
    page.wait_for_selector("table.board caption")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('input, textarea, button, select')]
             .filter((e) => e.offsetParent && !(e.labels?.length) && !e.getAttribute('aria-label') && !e.title
                     && !e.innerText?.trim() && !e.getAttribute('aria-labelledby'))
             .map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
    board = page.get_by_role("region", name="Leaderboard")
    assert board.get_by_role("rowheader").count() == 3
    assert board.get_by_role("columnheader").count() >= 9
    heading = board.get_by_role("button", name="IS", exact=True)
    heading.focus()
    page.keyboard.press("Enter")
    expect(page.locator("table.board th[aria-sort=descending]")).to_contain_text("IS")


def test_pictures_of_the_page_at_both_widths(browser, url, outside, repo_root):
    for width in (1280, 390):
        for page in opened_page(browser, url, outside, width):
            for name in ("leaderboard", "pictures", "submit"):
                go(page, url, f"?tab={name}")
                page.wait_for_timeout(500)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                keep(page, repo_root, f"{name}-{width}")


def test_headers_forbid_what_comes_from_elsewhere(url):
    answer = urllib.request.urlopen(url)
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert json.dumps(dict(answer.headers)).find("Set-Cookie") == -1
