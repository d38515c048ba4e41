"""How many requests an account may still send: the only place that counts."""
