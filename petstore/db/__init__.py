"""The PostgreSQL backend, and the state of each server: available or not, and the lag of replicas.

`base` is the Django backend that `settings.DATABASES` names. `connection` has the connections, which time
out. `monitor` polls each server, and `replicas` routes reads. Nothing in here knows pets or accounts.
"""
