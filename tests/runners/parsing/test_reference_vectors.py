"""Our parsers against the 88 raw answers of the reference's golden vectors (shared/reference/gistbench)."""

import json
from pathlib import Path
from typing import Any

import pytest
from gistbench.runners.parsing import parse_indices, parse_interests, parse_mapping

VECTORS = Path(__file__).resolve().parents[3].parent / "shared" / "reference" / "gistbench" / "parsing.json"


def _cases() -> list[Any]:
    if not VECTORS.is_file():
        reason = f"the reference's vectors are not at {VECTORS}"
        return [pytest.param(None, id="vectors", marks=pytest.mark.skip(reason=reason))]
    cases = json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]
    assert len(cases) == 88
    return [pytest.param(case, id=f"{n}-{case['kind']}-{case['raw'][:40]!a}") for n, case in enumerate(cases)]


def _read(case: dict[str, Any]) -> dict[str, Any]:
    if case["kind"] == "json":
        interests = parse_interests(case["raw"])
        read: dict[str, Any] = {"outcome": interests.status}
        if interests.value is not None:
            read["interests"] = [[found.name, list(found.item_ids)] for found in interests.value.interests]
            read["dropped"] = interests.value.n_dropped
        return read
    if case["kind"] == "taxonomy":
        mapping = parse_mapping(case["raw"], case["names"], range(1, case["n_categories"] + 1))
        return {"outcome": mapping.status} | ({} if mapping.value is None else {"mapping": dict(mapping.value)})
    selected = parse_indices(case["raw"], case["n_items"], limit=case.get("k"))
    read = {"outcome": selected.status}
    if selected.value is not None:
        read["indices"] = list(selected.value.indices)
        if selected.value.n_over_selected:
            read["over_selected"] = selected.value.n_over_selected
    return read


@pytest.mark.parametrize("case", _cases())
def test_reads_as_expected(case: dict[str, Any]) -> None:
    read = _read(case)
    allowed = [case["expect"]] + ([{"outcome": "invalid"}] if case.get("invalid_is_fine_too") else [])
    assert read in allowed
