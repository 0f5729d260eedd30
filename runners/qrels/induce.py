"""Step 5, `induce`: an induced preference profile for each sampled user, from the training history."""

from typing import Any

from ...hf_datasets.errors import ConfigError
from ..parsing.taste import MAX_CHARS, MIN_CHARS
from ..prompts import load_prompt
from ..stages.induce import Induce
from ..tally import Tally
from .judged import PROFILES, Judged, sampled_users
from .judging import Judging, read_histories
from .work import Work, fingerprint

__all__ = ["induce"]


def induce(
    work: Work,
    judging: Judging,
    *,
    name: str | None = None,
    max_items: int | None = 100,
    max_chars: int = MAX_CHARS,
) -> dict[str, Any]:
    """Induce the profiles of the sampled users; what was answered before is not asked again.

    Args:
        work: a folder with a pool.
        judging: the model that induces.
        name: of the folder; by default the model's.
        max_items: rated items in a prompt: the newest and the most telling, where there are more.
        max_chars: of each of the eleven texts. A small model may need fewer than the default to give a whole profile
            within its longest answer.

    Returns:
        The record: how many users, how many profiles, what it took.

    Raises:
        ConfigError: texts too short for any content.
        StoreError: nothing is pooled.
        EngineError: the model cannot be loaded, or fails at every request.
        RunStoppedError: a limit or a signal stopped it.
    """
    if max_chars < MIN_CHARS:
        raise ConfigError(f"max_chars is {max_chars}; a text of a profile has {MIN_CHARS} characters or more.")
    judged = Judged(work, name or judging.name)
    users = sampled_users(work)
    histories, split = read_histories(work, users)
    made_by = fingerprint(split, users, judging.identity, load_prompt("induce").sha256, max_items, max_chars)
    if judged.is_done(PROFILES, made_by) and not judging.retry_failed:
        return judged.record(PROFILES)
    stage = Induce(judging.asker("induce"), histories, users, max_items, max_chars)
    tally = Tally()
    table = stage.records(judging.ask(stage, f"induce    {judged.name}", tally, [split, max_items, max_chars]))
    statuses = table["status"].to_pylist()
    shown, rated = (table[column].to_pylist() for column in ("n_shown", "n_rated"))
    record = {
        "settings": {"max_items": max_items, "max_chars": max_chars},
        "n_users": len(users),
        **{f"n_{status}": statuses.count(status) for status in ("ok", "failed", "no_ratings")},
        "n_users_cut": sum(one < other for one, other in zip(shown, rated, strict=True)),
        "n_items_without_title": _n_untitled(histories, users),
        **judging.account("induce", tally),
    }
    judged.write(PROFILES, table, record, made_by=made_by, built_on={"split": split})
    return judged.record(PROFILES)


def _n_untitled(histories: Any, users: list[str]) -> int:
    items = {item for user in users for item in histories.of(user).items}
    return sum(not histories.texts.known(item) for item in items)
