"""Rules that name interests from a record, each another idea of what an interest looks like in words.

Every rule answers with the positive items of a group that is large enough to be supported by them.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from .reading import Entry
from .words import STOP_WORDS, labels, phrase_words, readable_label, stems

__all__ = ["CANDIDATES"]

POSITIVE = ("explicit_positive", "implicit_positive")
MIN_ITEMS = 3


def by_hashtag(record: Sequence[Entry]) -> str:
    """Name each label (hashtag, genre, tag) that at least three positive items carry."""
    groups: dict[str, list[Entry]] = defaultdict(list)
    spelled: dict[str, str] = {}
    for entry in _positive(record):
        for label in labels(entry.text):
            folded = label.casefold()
            if folded not in STOP_WORDS:
                groups[folded].append(entry)
                # The spelling with most capitals splits best into words.
                spelled[folded] = max(spelled.get(folded, label), label, key=lambda s: (sum(map(str.isupper, s)), s))
    return _answer((readable_label(spelled[folded]), entries) for folded, entries in groups.items())


def by_cluster(record: Sequence[Entry]) -> str:
    """Name each TF-IDF cluster of positive items by its heaviest words."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.feature_extraction.text import TfidfVectorizer

    entries = _positive(record)
    vectorizer = TfidfVectorizer(analyzer=phrase_words, min_df=2, sublinear_tf=True)
    try:
        weights = vectorizer.fit_transform([entry.text for entry in entries]).toarray()
    except ValueError:  # no word stands in two items: nothing to cluster
        return "[]"
    used = weights.any(axis=1)
    if used.sum() < MIN_ITEMS:
        return "[]"
    entries = [entry for entry, keep in zip(entries, used, strict=True) if keep]
    weights = weights[used]
    # Rounded, so that the last bits of a dot product do not decide a merge.
    distances = np.round(1 - weights @ weights.T, 9)
    found = AgglomerativeClustering(
        n_clusters=None, metric="precomputed", linkage="average", distance_threshold=0.85
    ).fit_predict(distances)
    terms = vectorizer.get_feature_names_out()
    groups = []
    for cluster in dict.fromkeys(found.tolist()):
        members = np.flatnonzero(found == cluster)
        mean = np.round(weights[members].mean(axis=0), 9)
        heaviest = sorted(np.flatnonzero(mean), key=lambda term: (-mean[term], terms[term]))[:2]
        groups.append((" ".join(terms[term] for term in heaviest), [entries[i] for i in members]))
    return _answer(groups)


def by_phrase(record: Sequence[Entry]) -> str:
    """Name each frequent phrase of one or two words; an item goes to the longest frequent phrase it holds."""
    holders: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in _positive(record):
        found = phrase_words(entry.text)
        phrases = {*pairwise(found), *((word,) for word in found)}
        for phrase in phrases:
            if len(set(phrase)) == len(phrase):
                holders[phrase].append(entry)
    frequent = {phrase: entries for phrase, entries in holders.items() if len(_ids(entries)) >= MIN_ITEMS}
    ranked = sorted(frequent, key=lambda phrase: (-len(phrase), -len(_ids(frequent[phrase])), phrase))
    groups: dict[str, list[Entry]] = {}
    taken: set[str] = set()
    for phrase in ranked:
        entries = [entry for entry in frequent[phrase] if entry.item_id not in taken]
        if len(_ids(entries)) >= MIN_ITEMS:
            taken.update(_ids(entries))
            groups[" ".join(phrase)] = entries
    return _answer(groups.items())


CANDIDATES: dict[str, Callable[[Sequence[Entry]], str]] = {
    "hashtag": by_hashtag,
    "tfidf": by_cluster,
    "phrase": by_phrase,
}


def _positive(record: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in record if entry.interaction_type in POSITIVE]


def _ids(entries: Iterable[Entry]) -> list[str]:
    return list(dict.fromkeys(entry.item_id for entry in entries))


def _answer(groups: Iterable[tuple[str, Sequence[Entry]]]) -> str:
    """Write the groups that are large enough, largest first, as the JSON that a candidate is asked for."""
    found = [(name, _ids(entries)) for name, entries in groups if stems(name)]
    large = sorted((g for g in found if len(g[1]) >= MIN_ITEMS), key=lambda group: (-len(group[1]), group[0]))
    return json.dumps([{"interest": name, "item_ids": ids} for name, ids in large], ensure_ascii=False)
