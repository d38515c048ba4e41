"""Whether the service lives and can serve: for load balancers, for people, and its metrics."""
