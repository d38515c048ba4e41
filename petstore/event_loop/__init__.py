"""The event loop's way of serving: one thread of a worker has many requests under way.

What others may use of it, and how:

- `Read` (compiled_reads) names rows once, at import. `where` narrows it; `first` and `one` run it. Not
  under `atomic`, whose own writes it would miss. `OwnRead` is a read that Django can't say.
- `insert`, `update`, `refresh` (compiled_writes) are Django's `save`, `filter().update()` and
  `refresh_from_db()` for one row or one condition, without signals; `update_one` returns the row as well.
  Each is a transaction of its own or part of the one that `atomic` makes of a function. `OwnSql` is one
  statement that Django can't say.
- Under `atomic` the others alone use the database. `wait=False` and `lock=True` are for use there only.
- `in_thread` (threads) is for all else that blocks: Django's ORM, files, other servers. Not
  under `atomic`.

A model's method that a request on the loop calls uses these. What only staff or commands call uses Django's
ORM, and may call these under Django's own `transaction.atomic`. Misuse raises TransactionManagementError or
SynchronousOnlyOperation: on the loop, and elsewhere as far as it shows there (tests/api/test_verbs.py).
`.importlinter` keeps all other modules to this package.

`waiting` lets ordinary functions wait for the loop. A `connection` lives once and owns those who wait for
its answers; `redis` and `postgresql` have such. `pipe` is the way to one that all share, as all reads do,
and `writers` lends one to each transaction. Nothing in here knows pets or accounts, and without it the
service answers the same, with a thread for each request.
"""
