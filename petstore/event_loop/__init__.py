"""The event loop engine: one thread of a worker serves many requests concurrently.

What other packages use:

- `Read` (compiled_reads) declares a query at import. `where` narrows it; `first` and `one` run it. Not
  under `atomic`, whose own writes it would miss. `RawRead` is a raw SQL query.
- `insert`, `update` and `refresh` (compiled_writes) are Django's `save`, `filter().update()` and
  `refresh_from_db()` for one row or one condition, without signals; `update_one` also returns the row.
  Each is its own transaction, or part of the one that `atomic` opens around a function. `RawStatement` is
  a raw SQL statement.
- Under `atomic` only these may use the database. `wait=False` and `lock=True` require `atomic`.
- `in_thread` (threads) is for everything else that blocks: Django's ORM, files, other servers. Not under
  `atomic`.

Methods of models that requests on the loop call use these. Methods that only staff or commands call use
Django's ORM, and may call these under Django's own `transaction.atomic`. Misuse raises
TransactionManagementError or SynchronousOnlyOperation, off the loop as far as it can be detected there
(tests/api/test_verbs.py). `.importlinter` keeps other modules to this interface.

`greenlets` lets plain functions wait for the loop. A `connection` is never reopened and owns the tasks that
wait for its replies. Reads and Redis each use one `shared_connection`; transactions borrow from the
`connection_pool`. Nothing in here knows pets or accounts, and without this package the service behaves the
same with a thread per request.
"""
