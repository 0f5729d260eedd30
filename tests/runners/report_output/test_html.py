import json
from html.parser import HTMLParser

import pytest
from gistbench.runners.report import html as html_module


class Page(HTMLParser):
    """What a browser would make of it: elements, their attributes, and texts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.scripts, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.scripts.append(data)
        else:
            self.texts.append(data)


@pytest.fixture(scope="module")
def nasty(made_up):
    return made_up.analyses[0].title.removeprefix("Scores ")


@pytest.fixture(scope="module")
def text(made_up):
    return made_up.html()


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_elements_are_closed_in_order(page):
    assert page.open == []


def test_names_that_are_markup_are_texts(page, nasty):
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"img", "iframe", "object"}
    assert all(not name.startswith("on") for _, attributes in page.elements for name in attributes)
    whole = "".join(page.texts)
    for said in ("Scores ", "Caption ", "Note ", "Needs a csv of labels: "):
        assert said + nasty in whole


def test_nothing_is_asked_for(page):
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "object", "embed")
        for name in ("src", "href", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:,"))
    policies = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'")
    assert "http" not in policies[0]


def test_plotly_stands_in_it_once(text):
    assert text.count("plotly.js v") == 1


def test_without_figures_it_needs_no_plotly(made_up):
    text = html_module.page(made_up.analyses[:1], {}, made_up.versions)
    assert "plotly.js v" not in text
    assert "<table>" in text


def test_every_figure_is_data_that_cannot_end_its_element(page, made_up):
    plots = [attributes for tag, attributes in page.elements if attributes.get("class") == "plot"]
    assert len(plots) == sum(len(drawing.panels) for drawing in made_up.drawings.values())
    figures = [json.loads(text) for text in page.scripts if text.startswith('{"data"')]
    assert len(figures) == len(plots)
    assert all(figure["data"] for figure in figures)


def test_every_analysis_is_in_the_contents_with_its_policy(page, made_up):
    ids = {attributes.get("id") for _, attributes in page.elements}
    links = {attributes["href"] for tag, attributes in page.elements if tag == "a"}
    for one in made_up.analyses:
        if one.missing:
            assert one.id not in ids
        else:
            assert one.id in ids
            assert f"#{one.id}" in links
    whole = " ".join(page.texts)
    assert '"preset": "base"' in whole
    assert {link.removeprefix("#") for link in links} <= ids


def test_ids_are_unique(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_cells_carry_what_to_sort_by(page):
    values = [a["data-v"] for tag, a in page.elements if tag == "td" and "data-v" in a and a.get("class") == "number"]
    assert values
    assert all(float(value) == float(value) for value in values)


def test_the_same_report_gives_the_same_page(made_up, text):
    assert made_up.html() == text
