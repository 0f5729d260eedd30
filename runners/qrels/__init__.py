"""From ratings to qrels that a language model expands (paper B), step by step in one work folder.

Each step is a module with one function that reads what the steps before it left and writes its tables and, last, its
record. A step that is asked for again with the same settings and data does nothing. The folder (:mod:`.work`)::

    split.json        data set, settings, statistics
    ratings.parquet   user, item, rating, time, split (train or test)
    items.parquet     item and what was given of its metadata; only with `items`
    recommend.json    the runs in order: system, algorithm, representative, parameters, counts, seconds
    runs/NAME.parquet system, user, item, rank, score: best first, ties by item id descending
    runs/NAME.run     the same as a TREC run (unless `trec` is off)
    runs/NAME.json    its record; a run without one is not finished
    sample.json       criteria, Table 3, the size chosen
    scores.parquet    system, user, ap, ndcg of all users with test ratings
    sampling.parquet  Table 3 for every size and repetition
    sampling_tests.parquet  the tests of each run for every size, first repetition
    users.parquet     the sampled users: user, stratum, n_train, n_test
    pool.json         size, share judged, popularity
    pool.parquet      user, item, n_systems, depth, rating (null: a hole), count, head
    pool_systems.parquet    what each system brought to the pool

A later step is a module here, one entry in :data:`.work.STEPS` and one command in ``cli_qrels.py``. Steps know nothing
of the terminal, and these four know nothing of language models.
"""
