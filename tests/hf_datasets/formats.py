"""What the tests of raw formats share: a small source in the genuine layout, and what is done with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from gistbench.hf_datasets.builder import EngagementBuilder, build_report, prepare
from gistbench.hf_datasets.errors import DataError
from gistbench.hf_datasets.registry import config_record, load_engagements


@dataclass(frozen=True)
class Format:
    """A raw format by the config that is made from it, with the files of a small source."""

    name: str
    files: Mapping[str, str]
    objects: str
    """The file that describes the objects."""
    delimiter: str | None = None
    """None: a JSON object per line."""
    header: bool = True

    def write(self, folder: Path) -> Path:
        """Write the small source into a new folder."""
        folder.mkdir()
        for name, text in self.files.items():
            (folder / name).write_text(text, newline="", encoding="utf-8")
        return folder

    def build(self, source: Path, tmp_path: Path, **parameters: object) -> EngagementBuilder:
        builder_class = config_record(self.name).builder
        parameters = {"min_engagements": 1} | parameters
        return prepare(builder_class, self.name, source=source, cache_dir=tmp_path / "cache", parameters=parameters)

    def load(self, source: Path, tmp_path: Path, **parameters: object) -> pa.Table:
        parameters = {"min_engagements": 1} | parameters
        return load_engagements(self.name, source=source, cache_dir=tmp_path / "cache", **parameters)

    def error(self, source: Path, tmp_path: Path, **parameters: object) -> str:
        """Return the message that building ends with; it begins with the source."""
        with pytest.raises(DataError) as caught:
            self.load(source, tmp_path, **parameters)
        assert str(caught.value).startswith(str(source))
        return str(caught.value)

    def check_broken_line(self, folder: Path, tmp_path: Path, file: str, line: str | bytes, problem: str) -> None:
        """Add a line: it is an error that names file, line and problem, and skipped and counted on request."""
        expected = self.load(folder, tmp_path)
        number = (folder / file).read_bytes().count(b"\n") + 1
        add(folder, file, line)
        text = self.error(folder, tmp_path)
        assert f"{file}: line {number}: {problem}" in text
        assert self.load(folder, tmp_path, on_error="skip").equals(expected)
        report = build_report(self.build(folder, tmp_path, on_error="skip"))
        assert (report.n_rows, dict(report.skipped)) == (expected.num_rows, {f"{folder}: {file}": 1})
        assert report.examples == (text,)


def add(folder: Path, name: str, text: str | bytes) -> None:
    """Append to a file of a source."""
    with (folder / name).open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)
