"""The PostgreSQL backend, which monitors the availability of servers and the lag of replicas.

`base` is the Django backend that `settings.DATABASES` names. `connection` adds timeouts to psycopg's
connections. `monitor` polls each server, and `replicas` routes reads. `event_loop` lets one thread
of a worker serve many requests. The other modules serve models and migrations of any app.
"""
