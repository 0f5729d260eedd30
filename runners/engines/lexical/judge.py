"""A judge that compares words: an item is about an interest when it holds at least half of the interest's words."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable

from ...prompts import item_name
from .reading import categories, interests, items, picks_wanted
from .words import compounds, stems

__all__ = ["JUDGE"]

MIN_SHARE = 0.5


def ground(prompt: str) -> str:
    """Keep the items that hold at least half of the interest's words."""
    wanted = stems(interests(prompt)[0])
    return _picks(i for i, text in enumerate(items(prompt)) if _share(wanted, stems(text)) >= MIN_SHARE)


def shortlist(prompt: str) -> str:
    """Keep the items that hold at least half of any interest's words."""
    wanted = [found for found in map(stems, interests(prompt)) if found]
    holders: dict[str, list[int]] = defaultdict(list)
    for number, found in enumerate(wanted):
        for stem in found:
            holders[stem].append(number)
    overlapping = []
    for index, text in enumerate(items(prompt)):
        hits = Counter(number for stem in stems(text) for number in holders.get(stem, ()))
        if any(count >= MIN_SHARE * len(wanted[number]) for number, count in hits.items()):
            overlapping.append(index)
    return _picks(overlapping)


def retrieve(prompt: str) -> str:
    """Pick the items that hold most of the interest's words, as many as asked for, none that holds none."""
    wanted = stems(interests(prompt)[0])
    shares = [(_share(wanted, stems(text)), index) for index, text in enumerate(items(prompt))]
    best = sorted((pair for pair in shares if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))
    return _picks(index for _, index in best[: picks_wanted(prompt)])


def assign(prompt: str) -> str:
    """Give each interest the category that shares its rarest words; a domain's words weigh half."""
    listed = [(number, stems(domain), stems(name) | compounds(name)) for number, domain, name in categories(prompt)]
    frequency = Counter(stem for _, domain, name in listed for stem in domain | name)
    weight = {stem: math.log(1 + len(listed) / count) for stem, count in frequency.items()}
    answer = []
    for number, interest in enumerate(interests(prompt), start=1):
        wanted = stems(interest)
        best, best_score = "0", 0.0
        for category, domain, name in listed:
            shared = sum(weight[stem] for stem in sorted(wanted & name))
            shared += sum(weight[stem] for stem in sorted((wanted & domain) - name)) / 2
            # Among equal matches the shorter name says less that the interest does not.
            score = shared / (1 + 0.01 * len(name))
            if score > best_score:
                best, best_score = category, score
        answer.append(f"{number}: {best}")
    return "\n".join(answer)


JUDGE: dict[str, Callable[[str], str]] = {
    "ground": ground,
    "shortlist": shortlist,
    "retrieve": retrieve,
    "map": assign,
}


def _share(wanted: frozenset[str], found: frozenset[str]) -> float:
    return len(wanted & found) / len(wanted) if wanted else 0.0


def _picks(indices: object) -> str:
    return ", ".join(map(item_name, indices)) or "NONE"  # type: ignore[call-overload]
