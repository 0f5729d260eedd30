import pytest
from gistbench.hf_datasets.builder import build_report
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.kuairec import video_text
from gistbench.hf_datasets.registry import dataset_record

from .formats import Format, add

HEADER = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"
FILES = {
    "small_matrix.csv": HEADER
    + "14,10,4381,6067,2020-07-05 05:27:48.378,20200705.0,1593898068.378,0.7221031811438932\n"
    + "14,11,12200,6100,2020-07-05 05:28:00.057,20200705.0,1593898080.057,2.0\n"
    + "14,12,700,7000,,,,0.1\n"
    + "2,10,6067,6067,2020-07-05 06:00:00.5,20200705.0,1593900000.5,1.0\n"
    + "2,12,2100,7000,2020-07-05 07:00:00.0,20200705.0,1593903600.0,0.3\n"
    + "2,13,100,5000,2020-07-05 08:00:00.0,20200705.0,1593907200.0,0.02\n"
    + "2,14,100,5000,2020-07-05 08:00:01.0,20200705.0,1593907201.0,5.5\n",
    # Captions hold commas in quotes, doubled quotes, line breaks, and bare carriage returns outside quotes.
    "kuairec_caption_category.csv": (
        "video_id,manual_cover_text,caption,topic_tag,first_level_category_id,first_level_category_name,"
        "second_level_category_id,second_level_category_name,third_level_category_id,third_level_category_name\n"
        '10,UNKNOWN,晚饭后\r跑步 #运动,"[运动,夜跑]",31,运动,727,跑步,-124,UNKNOWN\n'
        '11,封面,"Pasta, ""al dente""\nin ten minutes",[],12,美食,292,美食日常,1461,美食\n'
        "12,UNKNOWN,,[],27,高新数码,-124,UNKNOWN,-124,UNKNOWN\n"
        "13,UNKNOWN,,[],-124,UNKNOWN,-124,UNKNOWN,-124,UNKNOWN\n"
        "14,UNKNOWN,UNKNOWN,[],-124,UNKNOWN,-124,UNKNOWN,-124,UNKNOWN\n"
    ),
    "item_categories.csv": 'video_id,feat\n10,[31]\n12,"[27, 12]"\n13,"[12, 99]"\n',
}
BIG_MATRIX = HEADER + "0,11,13838,10867,2020-07-05 00:08:23.438,20200705,1593878903.438,1.2733965215790926\n"
RUN = "晚饭后 跑步 #运动. Tags: 夜跑. Category: 运动, 跑步"
PASTA = 'Pasta, "al dente" in ten minutes. Category: 美食, 美食日常'


KUAIREC = Format("kuairec", FILES, objects="kuairec_caption_category.csv", delimiter=",")
build, load, error = KUAIREC.build, KUAIREC.load, KUAIREC.error


@pytest.fixture
def folder(tmp_path):
    return KUAIREC.write(tmp_path / "kuairec")


def test_rows(folder, tmp_path):
    assert load(folder, tmp_path).to_pydict() == {
        "user_id": ["14", "14", "2", "2"],
        "object_id": ["11", "12", "13", "10"],
        "object_text": [PASTA, "Category: 高新数码, 美食", "Category: 美食", RUN],
        "interaction_type": ["explicit_positive", "implicit_negative", "implicit_negative", "implicit_positive"],
        "interaction_time": [1593898080.057, None, 1593907200.0, 1593900000.5],
    }


def test_what_was_left_out_is_counted(folder, tmp_path):
    report = build_report(build(folder, tmp_path))
    assert (report.n_rows, report.n_users) == (4, 2)
    assert report.left_out == {"the watch ratio says neither yes nor no": 2, "the object has no text": 1}
    assert report.skipped == {}


def test_limits_that_leave_nothing_out(folder, tmp_path):
    table = load(folder, tmp_path, implicit_negative_below=0.5, implicit_positive_min=0.5, explicit_positive_min=1)
    assert dict(zip(table["object_id"].to_pylist(), table["interaction_type"].to_pylist(), strict=True)) == {
        "10": "explicit_positive",
        "11": "explicit_positive",
        "12": "implicit_negative",
        "13": "implicit_negative",
    }
    assert table.num_rows == 6
    assert table["interaction_type"].to_pylist()[1] == "implicit_positive"  # 0.72


def test_tags_only(folder, tmp_path):
    texts = set(load(folder, tmp_path, captions=False)["object_text"].to_pylist())
    assert texts == {
        "Category: 美食, 美食日常",
        "Category: 高新数码, 美食",
        "Category: 美食",
        "Tags: 运动, 夜跑. Category: 运动, 跑步",
    }


def test_the_other_matrix(folder, tmp_path):
    add(folder, "big_matrix.csv", BIG_MATRIX)
    table = load(folder, tmp_path, matrix="big")
    assert table.to_pylist() == [
        {
            "user_id": "0",
            "object_id": "11",
            "object_text": PASTA,
            "interaction_type": "implicit_positive",
            "interaction_time": 1593878903.438,
        }
    ]
    (folder / "big_matrix.csv").unlink()
    with pytest.raises(ConfigError, match=r"matrix='big', but .* does not hold big_matrix\.csv"):
        load(folder, tmp_path, matrix="big")


def test_without_item_categories(folder, tmp_path):
    (folder / "item_categories.csv").unlink()
    report = build_report(build(folder, tmp_path))
    assert report.left_out["the object has no text"] == 2


def test_min_engagements_is_100(folder, tmp_path):
    assert dataset_record("kuairec").parameters["min_engagements"] == 100
    with pytest.raises(DataError, match="none of 2 users has 100 engagements"):
        load(folder, tmp_path, min_engagements=100)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("2,10,1,1,,,,\n", "watch_ratio is None; a number of 0 or more was expected"),
        ("2,10,1,1,,,,NaN\n", "watch_ratio is nan; a number of 0 or more was expected"),
        ("2,10,1,1,,,,inf\n", "watch_ratio is inf; a number of 0 or more was expected"),
        ("2,10,1,1,,,,-0.5\n", "watch_ratio is -0.5; a number of 0 or more was expected"),
        ("2,10,1,1,,,,much\n", "watch_ratio is 'much', not a number"),
        ("2,10,1,1,,,-1,2\n", "timestamp is -1.0; seconds since 1970 were expected"),
        (",10,1,1,,,1,2\n", "user_id is ''; an id was expected"),
        ("2,,1,1,,,1,2\n", "video_id is ''; an id was expected"),
        ("2,77,1,1,,,1,2\n", "video_id is '77'; it is not in kuairec_caption_category.csv;"),
        ("2,10,1\n", "3 fields, expected as many as the header has: 8"),
    ],
)
def test_broken_rows(folder, tmp_path, row, problem):
    KUAIREC.check_broken_line(folder, tmp_path, "small_matrix.csv", row, problem)


def test_categories_that_are_no_list(folder, tmp_path):
    problem = "feat is 'sports'; a list such as [27, 9] was expected"
    KUAIREC.check_broken_line(folder, tmp_path, "item_categories.csv", "14,sports\n", problem)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"implicit_positive_min": 3}, "each at least as high as the one before"),
        ({"implicit_negative_below": -0.1}, "must be 0 or more"),
        ({"matrix": "large"}, "matrix is 'large'; it must be one of small, big"),
    ],
)
def test_parameters_that_make_no_sense(folder, tmp_path, parameters, problem):
    with pytest.raises(ConfigError, match=problem):
        load(folder, tmp_path, **parameters)


def test_video_text():
    video = {
        "caption": "看海！",
        "topic_tag": "['海', \"沙滩\", 海]",
        "first_level_category_name": "旅游",
        "second_level_category_name": "UNKNOWN",
        "third_level_category_name": None,
    }
    assert video_text(video, ["旅游", "", "摄影"]) == "看海！ Tags: 海, 沙滩. Category: 旅游, 摄影"
