"""Each formula on one 4 x 5 matrix: against values by hand, or against the formula written out cell by cell."""

import math

import numpy as np
import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.recommenders.base import Fitting, Size
from gistbench.runners.recommenders.neighbourhood import Baseline
from gistbench.runners.recommenders.registry import find_recommender
from gistbench.runners.recommenders.weighted_sum import language_model
from scipy import sparse

RATINGS = np.array(
    [
        [5, 3, 0, 1, 0],
        [4, 0, 0, 1, 2],
        [1, 1, 0, 5, 0],
        [0, 1, 5, 4, 0],
    ],
    dtype=float,
)
USERS, ITEMS = range(4), range(5)
EVERYBODY = np.arange(4)
LENGTH = RATINGS.sum(axis=1)
BACKGROUND = RATINGS.sum(axis=0) / RATINGS.sum()


def matrix(dense=RATINGS):
    return sparse.csr_matrix(dense)


def scores(name, dense=RATINGS, seed=0, **parameters):
    train = matrix(dense)
    scorer = find_recommender(name)(**parameters).fit(train, Fitting(seed, 1))
    found = np.array(scorer(np.arange(dense.shape[0])), dtype=float)
    assert (train != matrix(dense)).nnz == 0, "the training matrix was changed"
    assert found.shape == dense.shape
    return found


def cosine(rows, a, b):
    return rows[a] @ rows[b] / (np.linalg.norm(rows[a]) * np.linalg.norm(rows[b]))


def neighbours(similarity, of, n, k):
    """Return the k most similar others, the later ones first where they tie, none without similarity."""
    others = sorted((v for v in range(n) if v != of), key=lambda v: (similarity(of, v), v), reverse=True)
    return [v for v in others if similarity(of, v) > 0][:k]


def user_cosine(u, v):
    return cosine(RATINGS, u, v)


def item_cosine(i, j):
    return cosine(RATINGS.T, i, j)


class TestBaselines:
    def test_popularity_counts(self):
        assert scores("popularity")[0].tolist() == [3, 3, 1, 4, 1]

    def test_an_item_without_ratings_is_not_recommended(self):
        without = RATINGS.copy()
        without[:, 2] = 0
        assert scores("popularity", without)[0].tolist() == [3, 3, -np.inf, 4, 1]

    def test_random_is_even_and_seeded(self):
        train = sparse.csr_matrix((200, 300))
        draws = [
            np.array(find_recommender("random")().fit(train, Fitting(seed, 1))(np.arange(200))) for seed in (0, 0, 1)
        ]
        assert (draws[0] == draws[1]).all()
        assert (draws[0] != draws[2]).mean() > 0.99
        assert abs(draws[0].mean() - 0.5) < 0.01
        assert abs(np.corrcoef(draws[0][:-1].ravel(), draws[0][1:].ravel())[0, 1]) < 0.02
        assert abs(np.corrcoef(draws[0].ravel(), draws[2].ravel())[0, 1]) < 0.02


class TestFactors:
    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_puresvd_projects_on_the_leading_item_factors(self, k):
        _, _, vt = np.linalg.svd(RATINGS)
        np.testing.assert_allclose(scores("puresvd", n_factors=k), RATINGS @ vt[:k].T @ vt[:k], atol=1e-9)

    def test_puresvd_takes_as_many_factors_as_there_are(self):
        np.testing.assert_array_equal(scores("puresvd", n_factors=50), scores("puresvd", n_factors=3))

    def test_wrmf_item_factors_solve_hus_equation(self):
        implicit_als = pytest.importorskip("implicit.als")
        models = []
        plain = implicit_als.AlternatingLeastSquares

        def kept(**options):
            models.append(plain(**options, use_cg=False, dtype=np.float64))
            return models[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(implicit_als, "AlternatingLeastSquares", kept)
            found = scores("wrmf", n_factors=2, alpha=2.0, regularisation=0.3)
        x, y = models[0].user_factors, models[0].item_factors
        np.testing.assert_allclose(found, x @ y.T)
        for i in ITEMS:  # the last half-step: y_i = (X^T C X + lambda I)^-1 X^T C p, with c = 1 + alpha r
            c = np.diag(1 + 2.0 * RATINGS[:, i])
            expected = np.linalg.solve(x.T @ c @ x + 0.3 * np.eye(2), x.T @ c @ (RATINGS[:, i] > 0))
            np.testing.assert_allclose(y[i], expected, rtol=1e-4, atol=1e-5)

    def test_bprmf_is_implicits(self):
        bpr = pytest.importorskip("implicit.bpr")
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            model = bpr.BayesianPersonalizedRanking(
                factors=3, learning_rate=0.05, regularization=0.01, iterations=10, num_threads=1, random_state=7
            )
            model.fit(sparse.csr_matrix((RATINGS > 0).astype(np.float32)), show_progress=False)
        found = scores("bprmf", seed=7, n_factors=3, n_iterations=10)
        np.testing.assert_allclose(found, model.user_factors @ model.item_factors.T, rtol=1e-6)

    def test_svd_is_surprises_from_raw_rows(self):
        surprise = pytest.importorskip("surprise")
        import pandas as pd

        dense = RATINGS[:, [0, 1, 3, 4, 2]]  # items in the order in which Surprise meets and numbers them
        rows = [(u, i, dense[u, i]) for u in USERS for i in ITEMS if dense[u, i]]
        data = surprise.Dataset.load_from_df(pd.DataFrame(rows), surprise.Reader(rating_scale=(1, 5)))
        built = data.build_full_trainset()
        assert [built.to_inner_iid(i) for i in ITEMS] == [0, 1, 2, 3, 4]
        model = surprise.SVD(n_factors=3, n_epochs=5, random_state=2).fit(built)
        expected = built.global_mean + model.bu[:, None] + model.bi + model.pu @ model.qi.T
        np.testing.assert_allclose(scores("svd", dense, seed=2, n_factors=3, n_epochs=5), expected, atol=1e-12)


class TestLinear:
    def test_ease_is_steck_with_a_plain_inverse(self):
        x = (RATINGS > 0).astype(float)
        p = np.linalg.inv(x.T @ x + 2.0 * np.eye(5))
        b = -p / np.diag(p)
        np.fill_diagonal(b, 0)
        np.testing.assert_allclose(scores("ease", regularisation=2.0), x @ b, atol=1e-12)

    def test_ease_by_hand(self):
        # Two items, both rated by both users: G = [[2, 2], [2, 2]], with lambda 1 B = 2/3 off the diagonal.
        np.testing.assert_allclose(scores("ease", np.array([[1.0, 1.0], [2.0, 4.0]]), regularisation=1.0), 2 / 3)

    def test_ease_mirrors_more_than_one_stripe(self):
        x = (np.random.default_rng(0).random((40, 1100)) < 0.05).astype(float)
        p = np.linalg.inv(x.T @ x + 5.0 * np.eye(1100))
        b = -p / np.diag(p)
        np.fill_diagonal(b, 0)
        np.testing.assert_allclose(scores("ease", x, regularisation=5.0), x @ b, atol=1e-9)

    def test_slim_is_the_elastic_net_of_each_item(self):
        from sklearn.linear_model import ElasticNet

        a = (RATINGS > 0).astype(float)
        expected = np.zeros((4, 5))
        l1, l2 = 0.1, 0.5
        for j in ITEMS:
            others = a.copy()
            others[:, j] = 0
            net = ElasticNet(
                alpha=(l1 + l2) / 4,
                l1_ratio=l1 / (l1 + l2),
                positive=True,
                fit_intercept=False,
                max_iter=10_000,
                tol=1e-12,
            )
            expected[:, j] = others @ net.fit(others, a[:, j]).coef_
        found = scores("slim", l1=l1, l2=l2, n_iterations=10_000, tolerance=1e-12)
        np.testing.assert_allclose(np.where(np.isfinite(found), found, 0), expected, atol=1e-6)

    def test_slim_by_hand(self):
        # Two items, both rated by both users: w minimises (1 - w)^2 + l2/2 w^2 + l1 w, so w = (2 - l1) / (2 + l2).
        found = scores("slim", np.ones((2, 2)), l1=0.5, l2=1.0, tolerance=1e-12)
        np.testing.assert_allclose(found, 0.5, atol=1e-6)

    def test_an_item_cut_off_models_the_most_rated_items_only(self):
        kept = [0, 1, 3]
        whole = scores("ease", RATINGS[:, kept], regularisation=2.0)
        cut = scores("ease", regularisation=2.0, max_items=3)
        np.testing.assert_allclose(cut[:, kept], whole)
        assert np.isneginf(cut[:, [2, 4]]).all()

    def test_lrec_squared_has_the_closed_form(self):
        r = (RATINGS > 0).astype(float)
        k = r @ r.T
        expected = k @ np.linalg.inv(k + 0.7 * np.eye(4)) @ r
        np.testing.assert_allclose(scores("lrec", loss="squared", regularisation=0.7), expected, atol=1e-12)

    def test_lrec_logistic_minimises_the_regularised_loss_of_each_user(self):
        from scipy.optimize import minimize

        found = scores("lrec", regularisation=0.7)
        x = (RATINGS.T > 0).astype(float)
        x = np.hstack([x, np.ones((5, 1))])  # liblinear regularises the intercept too
        for u in USERS:
            sign = np.where(RATINGS[u] > 0, 1, -1)

            def loss(w, sign=sign):
                return np.logaddexp(0, -sign * (x @ w)).sum() + 0.7 / 2 * w @ w

            best = minimize(loss, np.zeros(5), method="BFGS", tol=1e-10).x
            np.testing.assert_allclose(found[u], x @ best, atol=5e-3)


class TestTopics:
    def test_plsa_step_is_hofmanns(self):
        rng = np.random.default_rng(3)
        u = rng.random((4, 2)) + 0.5
        u /= u.sum(axis=1, keepdims=True)
        h = rng.random((2, 5)) + 0.5
        h /= h.sum(axis=1, keepdims=True)
        new_u, new_h = np.zeros((4, 2)), np.zeros((2, 5))
        for user in USERS:
            for item in ITEMS:
                posterior = h[:, item] * u[user] / (h[:, item] @ u[user])
                new_u[user] += RATINGS[user, item] * posterior
                new_h[:, item] += RATINGS[user, item] * posterior
        new_u /= new_u.sum(axis=1, keepdims=True)
        new_h /= new_h.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(scores("plsa", seed=3, n_topics=2, n_iterations=1), new_u @ new_h, atol=1e-12)

    def test_plsa_reaches_what_kl_nmf_reaches(self):
        from sklearn.decomposition import NMF

        def divergence(p):
            there = RATINGS > 0
            expected = p * LENGTH[:, None]
            return (RATINGS[there] * np.log(RATINGS[there] / expected[there])).sum() - RATINGS.sum() + expected.sum()

        ours = min(divergence(scores("plsa", seed=seed, n_topics=2, n_iterations=500)) for seed in range(5))
        options = {"solver": "mu", "beta_loss": "kullback-leibler", "max_iter": 5000, "tol": 1e-12, "init": "random"}
        theirs = min(NMF(2, **options, random_state=s).fit(RATINGS).reconstruction_err_ ** 2 / 2 for s in range(5))
        assert ours == pytest.approx(theirs, abs=1e-3)

    def test_lda_is_sklearns(self):
        from sklearn.decomposition import LatentDirichletAllocation

        model = LatentDirichletAllocation(n_components=2, max_iter=20, learning_method="batch", random_state=4)
        theta = model.fit_transform(sparse.csr_matrix(RATINGS))
        phi = model.components_ / model.components_.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(scores("lda", seed=4, n_topics=2), theta @ phi, atol=1e-12)


class TestWeightedSums:
    @pytest.mark.parametrize("k", [1, 2, 10])
    def test_wsr_ub(self, k):
        found = scores("wsr-ub", n_neighbours=k)
        for u in USERS:
            expected = sum(user_cosine(u, v) * RATINGS[v] for v in neighbours(user_cosine, u, 4, k))
            np.testing.assert_allclose(np.where(np.isneginf(found[u]), 0, found[u]), expected, atol=1e-12)

    @pytest.mark.parametrize("k", [1, 2, 10])
    def test_wsr_ib(self, k):
        found = scores("wsr-ib", n_neighbours=k)
        for i in ITEMS:
            expected = sum(item_cosine(i, j) * RATINGS[:, j] for j in neighbours(item_cosine, i, 5, k))
            np.testing.assert_allclose(np.where(np.isneginf(found[:, i]), 0, found[:, i]), expected, atol=1e-12)

    def test_by_hand(self):
        found = scores("wsr-ub", np.array([[3.0, 4.0, 0.0], [4.0, 3.0, 2.0]]), n_neighbours=1)
        cos = 24 / (5 * math.sqrt(29))
        np.testing.assert_allclose(found, [[4 * cos, 3 * cos, 2 * cos], [3 * cos, 4 * cos, -np.inf]])

    @pytest.mark.parametrize(
        ("smoothing", "weight"), [("jelinek-mercer", 0.3), ("dirichlet", 7.0), ("absolute-discounting", 0.4)]
    )
    @pytest.mark.parametrize("based", ["ub", "ib"])
    def test_language_models(self, smoothing, weight, based):
        rows = RATINGS if based == "ub" else RATINGS.T
        n = len(rows)
        background = rows.sum(axis=0) / rows.sum()

        def p(c, v):
            size = rows[v].sum()
            if smoothing == "jelinek-mercer":
                return (1 - weight) * rows[v, c] / size + weight * background[c]
            if smoothing == "dirichlet":
                return (rows[v, c] + weight * background[c]) / (size + weight)
            return (max(rows[v, c] - weight, 0) + weight * (rows[v] > 0).sum() * background[c]) / size

        def without(c, v):
            size = rows[v].sum()
            share = {
                "jelinek-mercer": weight,
                "dirichlet": weight / (size + weight),
                "absolute-discounting": weight * (rows[v] > 0).sum() / size,
            }[smoothing]
            return share * background[c]

        def likelihood(u, v):
            return sum(rows[u, c] * math.log(p(c, v)) for c in np.flatnonzero(rows[u]))

        def gain(u, v):
            return sum(rows[u, c] * math.log(p(c, v) / without(c, v)) for c in np.flatnonzero(rows[u]))

        order, weights = language_model(sparse.csr_matrix(rows), smoothing, weight)(np.arange(n))
        expected = np.zeros((n, n))
        for u in range(n):
            np.testing.assert_allclose(weights[u], [gain(u, v) for v in range(n)], atol=1e-12)
            likelihoods = np.array([likelihood(u, v) for v in range(n)])
            np.testing.assert_allclose(order[u] - order[u][0], likelihoods - likelihoods[0], atol=1e-9)
            others = sorted(
                (v for v in range(n) if v != u), key=lambda v, u=u: (np.float32(order[u, v]), v), reverse=True
            )
            chosen = [v for v in others if gain(u, v) > 0][:2]
            expected[u, chosen] = [gain(u, v) for v in chosen]
        found = scores(f"lm-wsr-{based}", n_neighbours=2, smoothing=smoothing, smoothing_weight=weight)
        expected = expected @ RATINGS if based == "ub" else RATINGS @ expected.T
        np.testing.assert_allclose(np.where(np.isneginf(found), 0, found), expected, atol=1e-9)

    def test_jelinek_mercer_has_the_sparse_form(self):
        gains = np.log1p(0.7 / 0.3 * RATINGS / (LENGTH[:, None] * BACKGROUND))
        np.testing.assert_allclose(language_model(matrix(), "jelinek-mercer", 0.3)(EVERYBODY)[1], RATINGS @ gains.T)


class TestFeedback:
    @pytest.mark.parametrize("name", ["rsv", "chi2", "kld"])
    def test_formula(self, name):
        found = scores(name, n_neighbours=2)
        for u in USERS:
            near = neighbours(user_cosine, u, 4, 2)
            votes = sum(RATINGS[v] for v in near)
            for i in ITEMS:
                p, c = votes[i] / votes.sum(), BACKGROUND[i]
                if not votes[i]:
                    assert np.isneginf(found[u, i])
                    continue
                expected = {
                    "rsv": votes[i] / len(near) * (p - c),
                    "chi2": (p - c) ** 2 / c,
                    "kld": p * math.log(p / c),
                }[name]
                assert found[u, i] == pytest.approx(expected, abs=1e-12)


class TestNNCosNgbr:
    parameters = {"n_neighbours": 2, "similarity_shrinkage": 3.0, "user_shrinkage": 1.0, "item_shrinkage": 2.0}  # noqa: RUF012

    def baseline(self):
        rated = RATINGS > 0
        mean = RATINGS[rated].mean()
        of_item = np.array([(RATINGS[rated[:, i], i] - mean).sum() / (2 + rated[:, i].sum()) for i in ITEMS])
        of_user = np.array(
            [(RATINGS[u, rated[u]] - mean - of_item[rated[u]]).sum() / (1 + rated[u].sum()) for u in USERS]
        )
        return mean + of_user[:, None] + of_item

    def test_baseline(self):
        np.testing.assert_allclose(Baseline.of(matrix(), 1.0, 2.0).of_users(EVERYBODY), self.baseline())

    def test_ib(self):
        found, b = scores("nncosngbr-ib", **self.parameters), self.baseline()

        def d(i, j):
            common = ((RATINGS[:, i] > 0) & (RATINGS[:, j] > 0)).sum()
            return common / (common + 3) * item_cosine(i, j)

        for u in USERS:
            for i in np.flatnonzero(RATINGS[u] == 0):
                near = sorted(np.flatnonzero(RATINGS[u]), key=lambda j, i=i: d(i, j), reverse=True)[:2]
                expected = b[u, i] + sum(d(i, j) * (RATINGS[u, j] - b[u, j]) for j in near)
                assert found[u, i] == pytest.approx(expected, abs=1e-6)

    def test_ub(self):
        found, b = scores("nncosngbr-ub", **self.parameters), self.baseline()

        def d(u, v):
            common = ((RATINGS[u] > 0) & (RATINGS[v] > 0)).sum()
            return common / (common + 3) * user_cosine(u, v)

        for u in USERS:
            for i in np.flatnonzero(RATINGS[u] == 0):
                raters = [v for v in np.flatnonzero(RATINGS[:, i]) if v != u]
                near = sorted(raters, key=lambda v, u=u: d(u, v), reverse=True)[:2]
                expected = b[u, i] + sum(d(u, v) * (RATINGS[v, i] - b[v, i]) for v in near)
                assert found[u, i] == pytest.approx(expected, abs=1e-9)

    def test_nobody_similar_leaves_the_baseline(self):
        alone = np.array([[5.0, 0.0], [0.0, 2.0]])
        for name in ("nncosngbr-ib", "nncosngbr-ub"):
            mean = 3.5
            item, user = np.array([1.5, -1.5]) / 26, np.array([1.5, -1.5]) * (1 - 1 / 26) / 11
            expected = mean + user[:, None] + item
            np.testing.assert_allclose(scores(name, alone)[alone == 0], expected[alone == 0], atol=1e-9)


class TestPrefs2vec:
    def test_neighbours_by_the_cosine_of_gensims_embeddings(self):
        models = pytest.importorskip("gensim.models")
        profiles = [[str(i) for i in np.flatnonzero(RATINGS[u])] for u in USERS]
        model = models.Word2Vec(
            profiles, vector_size=4, window=3, shrink_windows=False, min_count=1, sample=0, sg=0, cbow_mean=1, hs=0,
            negative=2, epochs=3, seed=5, workers=1,
        )  # fmt: skip
        vectors = np.array([model.wv[str(i)] for i in ITEMS], dtype=float)
        found = scores("prefs2vec", seed=5, n_factors=4, n_epochs=3, n_negative=2, n_neighbours=2)
        for i in ITEMS:
            near = neighbours(lambda a, b: cosine(vectors, a, b), i, 5, 2)
            expected = sum((cosine(vectors, i, j) * RATINGS[:, j] for j in near), np.zeros(4))
            np.testing.assert_allclose(np.where(np.isneginf(found[:, i]), 0, found[:, i]), expected, atol=1e-6)


class TestMemory:
    millions = Size(200_948, 87_585, 25_600_163)

    def test_pairs_of_items_grow_with_their_square(self):
        ease = find_recommender("ease")()
        assert 60e9 < ease.fit_bytes(self.millions) < 70e9
        assert find_recommender("slim")().fit_bytes(self.millions) > 90e9
        cut = find_recommender("ease")(max_items=20_000).fit_bytes(self.millions)
        assert 3e9 < cut < 6e9

    def test_the_cut_off_offered_is_the_largest_that_fits(self):
        ease = find_recommender("ease")()
        most = ease.largest_fit(self.millions, 24 << 30)
        assert ease.bytes_of_items(most, self.millions) <= 24 << 30 < ease.bytes_of_items(most + 1, self.millions)
        assert ease.largest_fit(self.millions, 0) == 0
        assert ease.largest_fit(self.millions, 1 << 60) == 87_585


def test_a_missing_library_is_named_with_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "implicit.als", None)
    with pytest.raises(ConfigError, match=r"implicit is not installed .*pip install 'gistbench\[recsys\]'"):
        scores("wrmf")
