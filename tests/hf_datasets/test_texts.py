from gistbench.hf_datasets._texts import clean, first_words, joined, listed


def test_clean():
    assert clean(" a\r\n\t b\u00a0c ") == "a b c"
    assert clean(None) == clean(float("nan")) == clean(" ") == ""


def test_first_words():
    assert first_words("a b c", 3) == "a b c"
    assert first_words("a b c", 2) == "a b …"
    assert first_words("a b c", 0) == ""
    assert first_words("", 2) == ""


def test_listed():
    assert listed("Tags", ["b", "", "a", "B", "a"]) == "Tags: b, a"
    assert listed("Tags", [""]) == listed("Tags", []) == ""


def test_joined():
    assert joined(["A", "", "B!", "C…", "D."]) == "A. B! C… D."
    assert joined(["看海！", "好"]) == "看海！ 好"
    assert joined([]) == ""
