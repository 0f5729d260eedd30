"""The page in a real browser: Debian's chromium through Playwright."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from gistbench.runners.report.analysis import Analysis, FigureSpec
from gistbench.runners.report.build import Report

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium")
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(made_up, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(made_up.html(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def demo_file(demo_report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "demo.html"
    path.write_text(demo_report.html(), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser):
    """Open a file at a width; what the page says to the console and asks for is kept."""
    contexts = []

    def open_page(path: Path, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        said, asked = [], []
        page.on("console", lambda message: said.append((message.type, message.text)))
        page.on("pageerror", lambda error: said.append(("error", str(error))))
        page.on("dialog", lambda dialog: (said.append(("dialog", dialog.message)), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        return page, said, asked

    yield open_page
    for context in contexts:
        context.close()


def scroll_through(page):
    """Bring every figure into sight, and wait until it is drawn."""
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
        plot.locator("svg.main-svg").first.wait_for()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_drawn_without_an_error_or_a_request(visit, file, width, scheme):
    page, said, asked = visit(file, width, scheme)
    scroll_through(page)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    # Nothing sticks out to the side, and every figure has its width.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    widths = page.evaluate("[...document.querySelectorAll('.plot')].map(p => p.clientWidth)")
    assert min(widths) > 250
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == {
        "light": "rgb(255, 255, 255)", "dark": "rgb(21, 25, 30)",
    }[scheme]  # fmt: skip


@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_of_real_runs_is_drawn(visit, demo_file, width):
    page, said, asked = visit(demo_file, width)
    scroll_through(page)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [demo_file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "lexical/hashtag" in page.locator("#table_3 tbody").inner_text()


OUTSIDE = """() => [...document.querySelectorAll('.plot')].flatMap((plot) => {
    const box = plot.getBoundingClientRect();
    const out = (r) => r.width && (r.left < box.left - 3 || r.right > box.right + 3 || r.bottom > box.bottom + 3);
    return [...plot.querySelectorAll('svg text')]
      .filter((text) => out(text.getBoundingClientRect()))
      .map((text) => [plot.closest('section').id, text.textContent]);
})"""


@pytest.mark.parametrize("width", [390, 1280])
def test_texts_of_figures_lie_within_them(visit, file, width):
    page, _, _ = visit(file, width)
    scroll_through(page)
    assert page.evaluate(OUTSIDE) == []


OVERLAPPING = """() => [...document.querySelectorAll('.plot')].flatMap((plot) => {
    const points = [...plot.querySelectorAll('.scatterlayer .point')];
    const things = [...plot.querySelectorAll('.annotation text')].filter((text) => text.textContent);
    const boxes = [...things, ...points].map((thing) => [thing.textContent, thing.getBoundingClientRect()]);
    return boxes.slice(0, things.length).flatMap(([a, one], n) => boxes.slice(n + 1)
      .filter(([, r]) => one.left < r.right - 2 && r.left < one.right - 2 && one.top < r.bottom - 3
        && r.top < one.bottom - 3)
      .map(([b]) => [a, b || 'a point']));
})"""


@pytest.mark.parametrize("width", [390, 1280])
def test_labels_of_points_cover_nothing(visit, tmp_path, width):
    """Costs of judging lie along a line, so near one another that labels need the width they were placed for."""
    models = ["gpt-oss-120b", "gpt-5", "DeepSeek-R1", "Qwen3-32B", "Llama-3.1-8B-Instruct", "Mistral-7B", "tfidf",
              "hashtag"]  # fmt: skip
    frame = pd.DataFrame(
        {"model": models, "n_interests": [127495, 90000, 78534, 101000, 60000, 64000, 98000, 95000],
         "tokens_in": [8e8, 6.2e8, 6.0e8, 6.6e8, 4.1e8, 4.4e8, 6.4e8, 6.3e8]}
    )  # fmt: skip
    spec = FigureSpec("scatter", "rows", "Judging costs", "c", x="n_interests", y="tokens_in", label="model")
    report = Report((Analysis("table_27", "t", "c", {"rows": frame}, {"table_27": spec}),), {"runs": []})
    path = tmp_path / "report.html"
    path.write_text(report.html(), encoding="utf-8")
    page, _, _ = visit(path, width)
    scroll_through(page)
    assert page.evaluate(OVERLAPPING) == []
    assert page.evaluate(OUTSIDE) == []
    shown = [text for text in page.locator(".annotation text").all_text_contents() if text]
    assert len(shown) >= len(models) - 1


def test_names_that_are_markup_are_read_as_they_are(visit, file, made_up):
    page, _, _ = visit(file)
    nasty = made_up.analyses[0].title
    assert page.locator("#table_3 h2").inner_text().startswith(nasty)
    assert page.locator("main img").count() == 0


def test_the_switch_changes_page_and_figures(visit, file):
    page, said, _ = visit(file)
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    page.locator(".plot[data-drawn=light]").first.wait_for()
    assert page.locator("#theme").inner_text().endswith("Dark")
    page.locator("#theme").click()
    page.locator(".plot[data-drawn=dark]").first.wait_for()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    fill = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    assert page.evaluate(fill) == "rgb(232, 234, 237)"
    assert said == []


def test_tables_sort_by_what_is_meant(visit, file):
    page, _, _ = visit(file)
    table = page.locator("#bubbles table")
    heading = table.locator("th", has_text="IG F1")
    values = "rows => rows.map(row => row.cells[4].dataset.v).map(Number)"

    def shown():
        return table.locator("tbody tr").evaluate_all(values)

    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert shown() == sorted(shown(), reverse=True)
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert shown() == sorted(shown())


def test_rows_can_be_searched(visit, file):
    page, _, _ = visit(file)
    rows = page.locator("#users .table").first.locator("tbody tr")
    page.locator("#users input[type=search]").first.fill("tfidf")
    assert 0 < rows.filter(visible=True).count() < rows.count()
    assert all("tfidf" in text for text in rows.filter(visible=True).all_inner_texts())


def test_contents_lead_to_their_sections(visit, file):
    page, _, _ = visit(file, 390)
    page.locator("nav summary").click()
    page.locator("nav a", has_text="Stability").click()
    # Figures that are drawn on the way have their heights from the start, so nothing moves the aim.
    for _ in range(50):
        if abs(page.locator("#band").bounding_box()["y"]) < 60:
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail("the section did not come into sight")


def test_tables_are_read_without_javascript(browser, file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "Qwen/Qwen3-32B" in page.locator("#table_3 tbody").inner_text()
    assert page.locator("noscript p").count() == 1
    context.close()
