"""The event loop's way of serving: one thread of a worker has many requests under way.

`waiting` lets ordinary functions wait for the loop, `pipe` is a connection that all who wait may share, and
`redis` and `postgresql` are such; `writers` gives each transaction one to itself. Nothing in here knows
pets or accounts, and without it the service answers the same, with a thread for each request.
"""
