from gistbench.hf_datasets.registry import load_engagements
from gistbench.hf_datasets.schema import INTERACTION_TYPES, describe_engagements


def test_demo(tmp_path):
    table = load_engagements("demo", cache_dir=tmp_path)
    stats = describe_engagements(table)
    assert stats.n_users == 12
    assert 80 <= stats.engagements_per_user.minimum <= stats.engagements_per_user.maximum <= 120
    assert stats.signals == INTERACTION_TYPES
    assert stats.n_objects_with_conflicting_text == 0
    assert stats.ignored_columns == ()


def test_one_user_has_no_times(tmp_path):
    table = load_engagements("demo", cache_dir=tmp_path)
    users = {}
    for user, time in zip(table["user_id"].to_pylist(), table["interaction_time"].to_pylist(), strict=True):
        users.setdefault(user, set()).add(time is None)
    assert sorted(map(sorted, users.values())) == [[False]] * 11 + [[True]]
