import json
from io import BytesIO
from xml.etree import ElementTree

import pytest
from gistbench.runners.report.analysis import FigureSpec
from gistbench.runners.report.figures import draw
from gistbench.runners.report.figures_plotly import arrange
from gistbench.runners.report.figures_static import static_image
from PIL import Image

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_svg_is_xml_with_its_title_and_texts_as_texts(figure):
    spec, tables = figure
    drawing = draw(spec, tables, {"policy": {"scores": "medians <of> users"}})
    svg = static_image(drawing, "svg")
    found = texts(svg)
    assert spec.title in found
    for panel in drawing.panels:
        assert set(panel.y.categories) <= set(found)
    # What it stands on goes with it.
    assert "medians <of> users" in "".join(ElementTree.fromstring(svg).itertext())


def test_svg_asks_nobody_for_anything(figure):
    for node in ElementTree.fromstring(static_image(draw(*figure), "svg")).iter():
        assert node.tag not in (f"{SVG}script", f"{SVG}foreignObject")
        for name, value in node.attrib.items():
            if name.endswith("href"):
                assert value.startswith(("#", "data:"))


def test_png_is_as_large_as_its_layout(figure):
    drawing = draw(*figure, meta={"policy": {"a": 1}})
    with Image.open(BytesIO(static_image(drawing, "png"))) as image:
        _, width, height = arrange(drawing.panels)
        assert image.width == pytest.approx(2 * width, abs=2)
        assert image.height > 2 * height
        assert json.loads(image.info["Description"])["policy"] == {"a": 1}
        # Paper around the marks, and marks.
        colours = image.convert("RGB").getcolors(maxcolors=1 << 20)
        assert max(colours)[1] == (255, 255, 255)
        assert len(colours) > 20


def test_the_same_figure_gives_the_same_bytes(kinds):
    for form in ("svg", "png"):
        assert static_image(draw(*kinds["band"]), form) == static_image(draw(*kinds["band"]), form)


def test_dollars_in_names_are_no_formulas(kinds):
    spec, tables = kinds["forest"]
    rows = tables["rows"].assign(model=[f"model {n} costs $5$" for n in range(len(tables["rows"]))])
    assert "model 0 costs $5$" in texts(static_image(draw(spec, {"rows": rows}), "svg"))


def test_values_without_an_interval_have_none_drawn(kinds):
    spec, tables = kinds["forest"]
    rows = tables["rows"].assign(ci_mean_ig_f1_low=float("nan"), ci_mean_ig_f1_high=float("nan"))
    assert static_image(draw(spec, {"rows": rows}), "svg")


def test_other_scripts_are_drawn(kinds):
    spec = FigureSpec("bar", "rows", "título 标题", "", x="ig_f1", y="model")
    rows = kinds["bubbles"][1]["rows"].head(1).assign(model="模型")
    assert "模型" in texts(static_image(draw(spec, {"rows": rows}), "svg"))
