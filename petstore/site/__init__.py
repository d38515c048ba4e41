"""The pages outside /v1: for people, for load balancers, and for what has no other answer."""
