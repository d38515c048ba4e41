"""The HTTP server: granian's workers, and what is between its protocol objects and Django.

- `supervisor` is the process that `manage.py serve` starts. It forks the workers.
- `app` is the application of a worker. It decides where a request is served, and limits concurrency.
- `bodies` reads request bodies, within the deadlines and memory of `body_limits`.
- `django_requests` builds Django's request, and `serving` gets the response and sends it: on the event loop
  or in a thread.
- `shutdown` has the signals and the state of a graceful shutdown.
- `wsgi` sets up Django before any of this.
"""
