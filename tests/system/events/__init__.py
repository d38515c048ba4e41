"""The feed under a race of writers, while workers are killed."""
