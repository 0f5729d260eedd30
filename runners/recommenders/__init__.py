"""The 21 recommenders of paper B: from training ratings to scores of items, in blocks of users.

One module for each family. A recommender is a frozen record of its parameters with ``fit(train) -> scorer``; it
registers with ``@recommender("name")`` (:mod:`.registry`), and ``settings.toml`` holds the parameters of the 31 runs.
Knows nothing about files, splits or users' names: users and items are the rows and columns of a sparse matrix.
"""
