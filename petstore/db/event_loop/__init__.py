"""The event loop engine, which lets one thread of a worker serve many requests concurrently.

Views and models use Django's database API, as they do in threads and commands. On the event loop, a request
waits for PostgreSQL in a greenlet, so that others continue:

- `django_connections` gives each greenlet its own `django.db.connections`, and `dbapi` waits for their
  statements. Each transaction borrows a connection of the `connection_pool`.
- `Read` (compiled_reads) is an optional fast path for lists and single rows, and `RawRead` for SQL queries.
- `counting` runs the statements of the quota (petstore/db/counting.py).

Reads and counting use a `shared_connection`. `greenlets` lets plain functions wait for the loop. A
`connection` is never reopened and owns the tasks that wait for its replies. This package knows nothing
about pets or accounts, and `.importlinter` hides the rest of it from other packages. With
SERVE_MODE=threads and on SQLite, the same code runs in a thread per request, on Django's own connections.
"""
