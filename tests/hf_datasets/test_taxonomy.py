import functools
import http.server
import threading
from pathlib import Path

import pytest
from gistbench.hf_datasets import taxonomy
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.taxonomy import OFFICIAL_SHA256, OFFICIAL_TAXONOMY_VARIABLE, Taxonomy, load_taxonomy

OFFICIAL = Path(__file__).parents[3] / "shared" / "reference" / "gistbench" / "categories.csv"
needs_official = pytest.mark.skipif(not OFFICIAL.is_file(), reason=f"{OFFICIAL} is not here")

HEADER = "category_id,category_name,domain\n"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch, tmp_path):
    monkeypatch.delenv(OFFICIAL_TAXONOMY_VARIABLE, raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("GISTBENCH_CACHE", str(tmp_path / "cache"))


def load(tmp_path, text):
    path = tmp_path / "mine.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_taxonomy(path)


class TestOwnFile:
    def test_content(self, tmp_path):
        mine = load(tmp_path, HEADER + '7,"Jazz, live",Music\n2,Chess,\n')
        assert mine == Taxonomy("mine", (2, 7), ("Chess", "Jazz, live"), (None, "Music"))
        assert (mine.name_of(7), mine.domain_of(7), mine.domain_of(2), len(mine)) == ("Jazz, live", "Music", None, 2)
        assert 7 in mine
        assert 0 not in mine
        assert "7" not in mine

    def test_without_domains(self, tmp_path):
        mine = load(tmp_path, "category_id,category_name\n1,Chess\n")
        assert (mine.domains, mine.domain_of(1)) == (None, None)

    def test_hash_is_of_content_not_of_formatting(self, tmp_path):
        first = load(tmp_path, HEADER + "1,Chess,Games\n2,Jazz,Music\n")
        second = load(
            tmp_path, b'\xef\xbb\xbfdomain,note,category_name,category_id\r\nMusic,x,Jazz,02\r\nGames,,"Chess",1\r\n'
        )
        assert first.sha256 == second.sha256
        for other in ("1,Chess,Games\n2,Jazz,\n", "1,Jazz,Games\n2,Chess,Music\n", "1,Chess,Games\n3,Jazz,Music\n"):
            assert load(tmp_path, HEADER + other).sha256 != first.sha256

    def test_hash_value_is_pinned(self):
        expected = "9467a601d3f7e4ae0b40ed3e579995dbf2cba7665db04f403ccb5bc36739ec4f"
        assert Taxonomy("any", (1, 2), ("Chess", "Café"), ("Games", None)).sha256 == expected

    def test_unknown_ids(self, tmp_path):
        mine = load(tmp_path, HEADER + "1,Chess,Games\n")
        with pytest.raises(DataError, match=r"Category 5 is not in taxonomy 'mine' \(1 categories\)"):
            mine.name_of(5)
        with pytest.raises(DataError, match="not mapped"):
            mine.domain_of(0)

    @pytest.mark.parametrize(
        ("rows", "problem"),
        [
            ("1,Chess,\n0,Other,\n", "line 3: category_id is '0'; ids are integers from 1"),
            ("-1,Chess,\n", "line 2: category_id is '-1'"),
            ("1.0,Chess,\n", "line 2: category_id is '1.0'"),
            (",Chess,\n", "line 2: category_id is ''"),
            ("1,Chess,\n2,Go,\n1,Jazz,\n", "line 4: category_id '1' is already on line 2"),
            ("1,Chess,\n2,Chess,\n", "line 3: category_name 'Chess' is already on line 2"),
            ("1, ,\n", "line 2: category_name is empty"),
            ("1,Jazz, live,x\n", "line 2: the row has more fields"),
            ("1\n", "line 2: the row has fewer fields"),
            ("", "there are no categories"),
        ],
    )
    def test_bad_rows(self, tmp_path, rows, problem):
        with pytest.raises(DataError) as caught:
            load(tmp_path, HEADER + rows)
        assert str(caught.value).startswith(f"{tmp_path / 'mine.csv'}: {problem}")

    def test_missing_columns(self, tmp_path):
        with pytest.raises(DataError, match=r"missing columns: category_id, category_name\. Found: id, name"):
            load(tmp_path, "id,name\n1,x\n")

    def test_not_utf8(self, tmp_path):
        with pytest.raises(DataError, match="line 3 is not UTF-8"):
            load(tmp_path, (HEADER + "1,Chess,\n2,Café,\n").encode("latin-1"))

    def test_no_such_file_suggests_a_name(self):
        with pytest.raises(
            ConfigError, match=r"Known: open, official \(and, for a run, none\); .* Did you mean 'official'\?"
        ):
            load_taxonomy("offical")

    def test_source_goes_with_official_only(self):
        with pytest.raises(ConfigError, match="goes with taxonomy 'official'"):
            load_taxonomy("open", source="x.csv")


def test_open_has_two_levels():
    mine = load_taxonomy()
    assert mine.name == "open"
    assert mine.domains is not None
    assert all(mine.domains)
    assert min(mine.ids) == 1
    assert len(set(mine.names)) == len(mine) > 100


@pytest.fixture
def server(tmp_path):
    """Serve a folder, and count the requests."""
    folder = tmp_path / "served"
    folder.mkdir()
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            requests.append(args)

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    ) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}/categories.csv", requests
        running.shutdown()
        thread.join()


@needs_official
class TestOfficial:
    def changed(self, tmp_path):
        path = tmp_path / "changed.csv"
        path.write_bytes(OFFICIAL.read_bytes() + b"\n")
        return path

    def test_source(self):
        official = load_taxonomy("official", source=OFFICIAL)
        assert (official.name, len(official), official.domains) == ("official", 325, None)
        assert official.name_of(3) == "Accidents, Emergencies & Tragedies"
        assert official.sha256 != load_taxonomy("open").sha256

    def test_environment(self, monkeypatch):
        monkeypatch.setenv(OFFICIAL_TAXONOMY_VARIABLE, str(OFFICIAL))
        assert len(load_taxonomy("official")) == 325

    def test_by_path_it_is_a_file_like_any_other_with_the_same_hash(self):
        assert load_taxonomy(OFFICIAL).sha256 == load_taxonomy("official", source=OFFICIAL).sha256

    def test_other_bytes_show_both_hashes(self, tmp_path):
        with pytest.raises(DataError, match=f"its sha256 is [0-9a-f]{{64}}, expected {OFFICIAL_SHA256}"):
            load_taxonomy("official", source=self.changed(tmp_path))

    def test_downloaded_once(self, server):
        folder, url, requests = server
        (folder / "categories.csv").write_bytes(OFFICIAL.read_bytes())
        assert len(load_taxonomy("official", url=url)) == 325
        assert len(load_taxonomy("official", url=url)) == 325
        assert len(requests) == 1

    def test_downloaded_to_a_folder_of_choice(self, server, tmp_path):
        folder, url, _ = server
        (folder / "categories.csv").write_bytes(OFFICIAL.read_bytes())
        load_taxonomy("official", url=url, cache_dir=tmp_path / "here")
        assert [path.read_bytes() for path in (tmp_path / "here").iterdir()] == [OFFICIAL.read_bytes()]

    def test_other_bytes_downloaded_are_not_kept(self, server, tmp_path):
        folder, url, _ = server
        (folder / "categories.csv").write_bytes(self.changed(tmp_path).read_bytes())
        with pytest.raises(DataError, match=OFFICIAL_SHA256):
            load_taxonomy("official", url=url)
        assert not (tmp_path / "cache").exists()

    def test_a_cached_copy_is_checked_again(self, server, tmp_path):
        folder, url, _ = server
        (folder / "categories.csv").write_bytes(OFFICIAL.read_bytes())
        load_taxonomy("official", url=url)
        (cached,) = (tmp_path / "cache").iterdir()
        cached.write_text("changed")
        with pytest.raises(DataError, match=str(cached)):
            load_taxonomy("official", url=url)


class TestOfficialThatCannotBeHad:
    def check(self, error, tmp_path, url):
        text = str(error.value)
        for part in (url, OFFICIAL_SHA256, str(tmp_path / "cache"), OFFICIAL_TAXONOMY_VARIABLE, "--taxonomy-source"):
            assert part in text

    def test_server_without_it(self, server, tmp_path):
        _, url, _ = server
        with pytest.raises(DataError, match=r"could not be downloaded .*404") as error:
            load_taxonomy("official", url=url)
        self.check(error, tmp_path, url)

    def test_offline(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(DataError, match="HF_HUB_OFFLINE is set") as error:
            load_taxonomy("official")
        self.check(error, tmp_path, taxonomy.OFFICIAL_URL)

    def test_no_such_file(self, tmp_path):
        with pytest.raises(DataError, match=r"none\.csv: no such file") as error:
            load_taxonomy("official", source=tmp_path / "none.csv")
        assert "--taxonomy-source PATH of a run, --source PATH of `datasets build`" in str(error.value)
        self.check(error, tmp_path, taxonomy.OFFICIAL_URL)
