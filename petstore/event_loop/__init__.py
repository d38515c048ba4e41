"""The event loop engine, which lets one thread of a worker serve many requests concurrently.

Other packages use this interface, and `.importlinter` hides the rest from them:

- `Read` (compiled_reads) declares a query at import. `where` narrows it; `fetch` and `fetch_one` run it.
  `RawRead` is a raw SQL query. Neither may run under `atomic`, because it would miss uncommitted writes.
- `insert`, `update` and `refresh` (compiled_writes) replace Django's `save()`, `filter().update()` and
  `refresh_from_db()`, without signals. `update_one` also returns the updated row. `RawStatement` is a raw
  SQL statement. Each runs in its own transaction, or in the one that `atomic` opens around a function.
- Code under `atomic` must access the database only through the functions of compiled_writes. The options
  `wait=False` and `lock=True` require `atomic`.
- `run_in_thread` (threads) runs everything else that blocks: Django's ORM, files, other servers. It is not
  allowed under `atomic`.

Model methods that serve API requests use this interface. Methods that only staff or commands call use
Django's ORM, and may combine it with this interface under `transaction.atomic`. Misuse raises
TransactionManagementError or SynchronousOnlyOperation. Off the loop, some misuse goes undetected
(tests/api/test_verbs.py).

`greenlets` lets plain functions wait for the loop. A `connection` is never reopened and owns the tasks that
wait for its replies. Reads, and the statements of `counting`, use a `shared_connection`; writes borrow
a connection from the `connection_pool`. This package knows nothing about pets or accounts. With
SERVE_MODE=threads, the same code runs in a thread per request.
"""
