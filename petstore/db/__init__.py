"""PostgreSQL, and what this process knows of its servers: whether they answer, how far replicas are behind.

`base` is the Django backend that `settings.DATABASES` names, on `connection`s that give up in time.
`monitor` looks at each server all the time, `replicas` decides which of them a read goes to.
Nothing in here knows pets or accounts.
"""
