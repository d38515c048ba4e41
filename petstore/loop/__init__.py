"""The event loop's way of serving: one thread of a worker has many requests under way.

`waiting` lets ordinary functions wait for the loop. A `connection` lives once and owns those who wait for
its answers; `redis` and `postgresql` have such. `pipe` is the way to one that all share, as `reader` does,
and `writers` lends one to each `transaction`. Nothing in here knows pets or accounts, and without it the
service answers the same, with a thread for each request.
"""
