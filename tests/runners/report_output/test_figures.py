import json
import math
from itertools import pairwise

import pandas as pd
import pytest
from gistbench.runners.report.analysis import FigureSpec, Reference
from gistbench.runners.report.columns import describe_column
from gistbench.runners.report.figures import draw, show_value
from gistbench.runners.report.figures_labels import end_labels, place_labels, share
from gistbench.runners.report.figures_marks import Axis, Bars, Boxes, Cells, Line, Points, Text
from gistbench.runners.report.figures_plotly import figure_json, panel_figures, plotly_figure
from gistbench.runners.report.figures_style import COLOURS, SEQUENTIAL, THEMES, blend, short_names, text_width
from hypothesis import given
from hypothesis import strategies as st

UNIT = Axis("", (0.0, 1.0))


def marks_of(drawing, kind):
    return [mark for panel in drawing.panels for mark in panel.marks if isinstance(mark, kind)]


def data_lines(drawing):
    return [line for line in marks_of(drawing, Line) if not line.colour.startswith("@@")]


# Every kind


def test_every_mark_is_within_its_axes(figure):
    drawing = draw(*figure)
    assert drawing.panels
    for panel in drawing.panels:
        x0, x1 = sorted(panel.x.range)
        y0, y1 = sorted(panel.y.range)
        for mark in panel.marks:
            if isinstance(mark, Points | Line):
                assert all(x0 <= x <= x1 for x in mark.x)
                assert all(y0 <= y <= y1 for y in mark.y)
            if isinstance(mark, Bars):
                low, high = (x0, x1) if mark.horizontal else (y0, y1)
                assert all(low <= value <= high for value in mark.values)
                assert low <= 0 <= high


def test_axes_have_names_or_categories(figure):
    for panel in draw(*figure).panels:
        for axis in (panel.x, panel.y):
            assert axis.label or axis.categories
            assert len(axis.categories) == len(set(axis.categories)) == len(axis.full)


def test_plotly_accepts_the_figure_in_both_themes(figure):
    drawing = draw(*figure, meta={"policy": {"a": 1}})
    for theme in THEMES:
        text = figure_json(drawing, theme)
        assert "@@" not in text
        assert "NaN" not in text
        assert json.loads(text)["layout"]["meta"]["policy"] == {"a": 1}
        shown = plotly_figure(drawing, theme)
        assert shown.layout.paper_bgcolor == THEMES[theme]["@@paper"]
        assert shown.data


def test_names_that_are_markup_are_shown_as_they_are(figure):
    for theme in THEMES:
        text = figure_json(draw(*figure), theme)
        # The caption is no part of what is drawn.
        data = json.loads(text)
        del data["layout"]["meta"]
        assert "<img" not in json.dumps(data)
        assert "<script" not in json.dumps(data)


def test_there_is_a_figure_for_each_panel(figure):
    drawing = draw(*figure)
    panels = panel_figures(drawing)
    assert len(panels) == len(drawing.panels)
    assert all(panel["data"] and panel["layout"]["height"] > 0 for panel in panels)


def test_labels_within_a_panel_do_not_cover_each_other(kinds):
    for name in ("bubbles", "labelled", "users"):
        for panel in draw(*kinds[name]).panels:
            boxes = []
            for mark in panel.marks:
                if isinstance(mark, Text) and mark.colour == "@@ink":
                    long = text_width(mark.text)
                    left = share(mark.x, panel.x) * panel.width + mark.right
                    left -= {"left": 0, "center": long / 2, "right": long}[mark.anchor]
                    boxes.append((left, share(mark.y, panel.y) * panel.height + mark.up, long))
            for n, (left, up, long) in enumerate(boxes):
                for other, beside, length in boxes[n + 1 :]:
                    assert abs(up - beside) >= 14 or left + long <= other or other + length <= left


def test_nothing_to_draw_is_no_figure(figure):
    spec, tables = figure
    assert draw(spec, {**tables, "rows": tables["rows"].iloc[:0]}) is None


# What each kind shows


def test_the_first_row_of_a_forest_is_on_top(kinds):
    spec, tables = kinds["forest"]
    for panel, (_, rows) in zip(draw(spec, tables).panels, tables["rows"].groupby("dataset", sort=False), strict=True):
        assert panel.y.full[::-1] == tuple(rows["model"])
        (points,) = (mark for mark in panel.marks if isinstance(mark, Points))
        assert points.low == pytest.approx(rows["ci_mean_ig_f1_low"])
        assert list(points.y) == sorted(points.y, reverse=True)


def test_areas_of_bubbles_are_in_proportion():
    frame = pd.DataFrame({"model": ["a", "b"], "ig_f1": [0.2, 0.6], "is": [0.1, 0.5], "n_interests": [100, 400]})
    spec = FigureSpec("scatter", "rows", "", "", x="ig_f1", y="is", size="n_interests", label="model")
    (points,) = marks_of(draw(spec, {"rows": frame}), Points)
    assert points.sizes[1] ** 2 == pytest.approx(4 * points.sizes[0] ** 2)


def test_lines_of_equal_f1_hold_it(kinds):
    lines = [line for line in marks_of(draw(*kinds["bubbles"]), Line) if line.dash == "dot"]
    levels = {
        round(2 * x * y / (x + y), 9) for line in lines for x, y in zip(line.x, line.y, strict=True)
    }  # fmt: skip
    assert levels == {0.3, 0.5, 0.7}


def test_boxes_are_the_quantiles_of_the_table(kinds):
    spec, tables = kinds["box"]
    (boxes,) = marks_of(draw(spec, tables), Boxes)
    names = ["minimum", "lower_quartile", "median", "upper_quartile", "maximum"]
    assert [list(one) for one in boxes.quantiles] == tables["rows"][names].to_numpy().tolist()


def test_cells_of_differences_are_pale_where_there_is_none(kinds):
    (cells,) = marks_of(draw(*kinds["differences"]), Cells)
    low, high = cells.range
    assert low == -high
    assert blend(cells.stops, 0.5) == "#F4F4F2"
    assert sum(not math.isnan(value) for row in cells.values for value in row) == 10


def test_numbers_in_cells_can_be_read(kinds):
    for name in ("differences", "heatmap", "confusion"):
        (cells,) = marks_of(draw(*kinds[name]), Cells)
        for row, values in enumerate(cells.values):
            for column, value in enumerate(values):
                if not math.isnan(value):
                    low, high = cells.range
                    colour = blend(cells.stops, (value - low) / (high - low))
                    assert contrast(colour, cells.ink(row, column)) > 3


def contrast(one, other):
    def luminance(colour):
        parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_colours_show_on_paper(theme):
    paper = THEMES[theme]["@@paper"]
    assert contrast(THEMES[theme]["@@ink"], paper) > 7
    assert contrast(THEMES[theme]["@@muted"], paper) > 4.5
    assert all(contrast(colour, paper) > 2 for colour in COLOURS)


def test_bands_hold_their_lines(kinds):
    for line in data_lines(draw(*kinds["band"])):
        assert all(low <= y <= high for low, y, high in zip(line.low, line.y, line.high, strict=True))


def test_the_best_rank_is_on_top(kinds):
    (panel,) = draw(*kinds["ranks"]).panels
    assert panel.y.range[0] > panel.y.range[1]
    assert [text for _, text in panel.y.ticks] == ["1", "2", "3", "4", "5"]
    assert panel.x.categories == ("lenient", "base", "strict")


def test_lines_are_labelled_at_their_ends_and_need_no_keys(kinds):
    drawing = draw(*kinds["band"])
    assert drawing.keys == ()
    labels = {mark.text for mark in marks_of(drawing, Text) if mark.right == 8}
    assert labels == {"synthetic", "movielens", "yelp"}


def test_bars_of_groups_have_keys_in_words(kinds):
    drawing = draw(*kinds["grouped"])
    assert [key.text for key in drawing.keys] == ["Exc. Neg", "Nothing kept", "Ins. Imp+"]
    assert len({key.colour for key in drawing.keys}) == 3


def test_groups_keep_their_colours_in_all_panels(kinds):
    drawing = draw(*kinds["grouped"])
    colours = [[mark.colour for mark in panel.marks if isinstance(mark, Bars)] for panel in drawing.panels]
    assert colours[0] == colours[1]


def test_rows_that_would_lie_over_each_other_get_panels_of_their_own(kinds):
    spec, tables = kinds["columns"]
    rows = pd.concat([tables["rows"].assign(judge=judge) for judge in ("one", "other")])
    assert [panel.title for panel in draw(spec, {"rows": rows}).panels] == ["synthetic · one", "synthetic · other"]


def test_the_label_of_a_line_avoids_what_is_drawn():
    frame = pd.DataFrame({"category_share": [0.0, 0.5, 1.0], "cumulative_share": [0.5, 0.5, 1.0]})
    spec = FigureSpec("line", "rows", "", "", x="category_share", y="cumulative_share", x_range=(0, 1), y_range=(0, 1),
                      references=(Reference("horizontal", 0.5, "half"),))  # fmt: skip
    (label,) = (mark for mark in marks_of(draw(spec, {"rows": frame}), Text) if mark.text == "half")
    assert label.anchor == "right"


def test_values_that_are_missing_are_left_out():
    frame = pd.DataFrame({"model": ["a", "b"], "ig_f1": [0.2, None], "is": [0.1, 0.5]})
    spec = FigureSpec("scatter", "rows", "", "", x="is", y="ig_f1", label="model")
    (points,) = marks_of(draw(spec, {"rows": frame}), Points)
    assert points.y == (0.2,)


def test_names_of_vertical_lines_stand_above_the_first_bar():
    frame = pd.DataFrame({"model": ["a", "b"], "n_covered": [327, 300]})
    spec = FigureSpec("bar", "rows", "", "", x="n_covered", y="model",
                      references=(Reference("vertical", 327.0, "all 327 categories"),))  # fmt: skip
    (panel,) = draw(spec, {"rows": frame}).panels
    (bars,) = [mark for mark in panel.marks if isinstance(mark, Bars)]
    (name,) = [mark for mark in panel.marks if isinstance(mark, Text) and mark.text == "all 327 categories"]
    row = panel.height / (panel.y.range[1] - panel.y.range[0])
    assert (name.y - max(bars.at) - bars.thickness / 2) * row + name.up > 0


def test_figures_of_other_metrics_have_axes_of_their_own():
    frame = pd.DataFrame({"model": ["a"] * 2, "metric": ["ig_precision", "ig_recall"], "score": [0.9, 0.2]})
    low, high = draw(FigureSpec("forest", "rows", "", "", x="score", y="model", facet="metric"), {"rows": frame}).panels
    assert low.x.range[0] > high.x.range[1]


def test_a_long_first_name_has_room_on_a_narrow_page():
    names = ["SmolLM2-135M-Instruct-Q4_1", "b", "c"]
    frame = pd.DataFrame({"model": names, "minimum": 0.1, "lower_quartile": 0.2, "median": 0.3, "upper_quartile": 0.4,
                          "maximum": 0.5})  # fmt: skip
    (panel,) = draw(FigureSpec("box", "rows", "", "", x="model", y="median"), {"rows": frame}).panels
    assert panel.x.rotated
    leans = text_width(panel.x.categories[0]) * math.cos(math.radians(38))
    assert panel.left + 180 / (2 * len(names)) >= leans


def test_a_correlation_ends_at_1():
    frame = pd.DataFrame({"n_users": [4, 8], "rho": [0.9, 1.0]})
    (panel,) = draw(FigureSpec("line", "rows", "", "", x="n_users", y="rho"), {"rows": frame}).panels
    assert panel.y.range[1] <= 1.04


def test_a_table_of_one_value_or_of_zeros_has_axes():
    for value in (0.0, 0.4):
        frame = pd.DataFrame({"model": ["a"], "ig_f1": [value]})
        (panel,) = draw(FigureSpec("bar", "rows", "", "", x="ig_f1", y="model"), {"rows": frame}).panels
        assert panel.x.range[0] < panel.x.range[1]


def test_a_column_that_is_not_there_is_an_error(kinds):
    _, tables = kinds["bubbles"]
    with pytest.raises(KeyError):
        draw(FigureSpec("scatter", "rows", "", "", x="nothing", y="ig_f1"), tables)


# Parts


points = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(4, 34), st.text("abc", min_size=1, max_size=20)), max_size=15
)


@given(points)
def test_labels_stay_inside_and_apart(found):
    placed = place_labels(found, UNIT, UNIT, 400.0, 300.0)
    assert len(placed) <= len(found)
    boxes = []
    for label in placed:
        long = text_width(label.text)
        left = label.x * 400 + label.right - {"left": 0, "center": long / 2, "right": long}[label.anchor]
        middle = label.y * 300 + label.up
        assert left >= -1e-6
        assert left + long <= 408 + 1e-6
        for other, up, length in boxes:
            assert abs(up - middle) >= 15 - 1e-6 or left + long <= other + 1e-6 or other + length <= left + 1e-6
        boxes.append((left, middle, long))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_labels_at_ends_are_moved_apart_in_order(values):
    labels = end_labels([(1.0, value, f"{n}") for n, value in enumerate(values)], UNIT, 300.0)
    places = [label.y * 300 + label.up for label in labels]
    assert all(b - a > 13 for a, b in pairwise(places))
    assert [label.y for label in labels] == sorted(values)


@given(st.lists(st.text(max_size=60), unique=True, max_size=8))
def test_short_names_tell_names_apart(names):
    shortened = short_names(names)
    assert set(shortened) == set(names)
    assert len(set(shortened.values())) == len(names)


@given(st.floats(-1, 2))
def test_colours_of_a_scale_are_colours(place):
    assert len(blend(SEQUENTIAL, place)) == 7


@pytest.mark.parametrize(
    ("value", "column", "shown"),
    [
        (0.4567, "ig_f1", "45.7"),
        (float("nan"), "ig_f1", "–"),
        (None, "n_users", "–"),
        (1234567, "n_users", "1,234,567"),
        (0.00001, "p_value", "<0.0001"),
        (-0.034, "difference_of_means", "−3.4"),
        (-0.0, "difference_of_means", "0.0"),
        (-0.0000001, "difference_of_means", "0.0"),
        (True, "verified", "yes"),
    ],
)
def test_values_are_shown(value, column, shown):
    found = show_value(value, describe_column(column))
    assert found == shown
