"""Prefs2vec: items as words, a user's profile as one context (Valcarce et al., 2019). By gensim."""

from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import Field

from .base import Fitting, FloatArray, IntArray, Recommender, Scorer, Size, needs
from .neighbours import nearest, nearest_bytes
from .registry import recommender
from .weighted_sum import item_based

__all__ = ["Prefs2vec"]

_LONGEST = 10_000  # words of a sentence, to gensim


@recommender("prefs2vec")
class Prefs2vec(Recommender):
    """CBOW whose context is the whole profile, with negative sampling; neighbours by the cosine of the embeddings; WSR.

    The items' embeddings and a weighted sum over items. Recalled from the literature and not read again. Gensim cuts a
    profile of more than 10,000 items into parts.
    """

    libraries = ("gensim", "numpy", "scipy")

    n_factors: int = Field(default=100, ge=1)
    n_epochs: int = Field(default=20, ge=1)
    n_negative: int = Field(default=10, ge=1)
    max_window: int = Field(default=_LONGEST, ge=1)
    """Items on either side that are context; time grows with the square of the profile, so long ones can be cut."""
    n_neighbours: int = Field(default=100, ge=1)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Train with one thread, so that the same seed gives the same embeddings."""
        word2vec = needs("gensim.models", "gensim").Word2Vec
        n_items = train.shape[1]
        words = [str(item) for item in range(n_items)]
        ends = train.indptr
        profiles = [[words[item] for item in train.indices[a:b]] for a, b in pairwise(ends)]
        model = word2vec(
            profiles,
            vector_size=self.n_factors,
            window=min(self.max_window, max(map(len, profiles))),
            shrink_windows=False,
            min_count=1,
            sample=0,
            sg=0,
            cbow_mean=1,
            hs=0,
            negative=self.n_negative,
            epochs=self.n_epochs,
            seed=fitting.seed % (1 << 31),
            workers=1,
        )
        vectors = np.zeros((n_items, self.n_factors))
        vectors[np.array(model.wv.index_to_key, dtype=np.int64)] = model.wv.vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)

        def similarities(at: IntArray) -> tuple[FloatArray, FloatArray]:
            found = vectors[at] @ vectors.T
            return found, found

        return item_based(train, nearest(similarities, n_items, self.n_neighbours))

    def fit_bytes(self, size: Size) -> int:
        """Profiles as lists, embeddings, and neighbours of items."""
        factors = 24 * self.n_factors * size.n_items + 600 * size.n_items
        return 8 * size.n_ratings + factors + nearest_bytes(size.n_items, self.n_neighbours, 0)
