"""Rate limits and quotas: the only package that counts requests against limits.

- `limits` states the rule, numbers its steps, and has the values of a decision. `sql` is the rule in
  SQL, and `bans` has the constants of its ban.
- `store` runs the statements. `admit` authenticates a key and counts its request in one statement, and
  `peek` in none. Nothing is cached, so each change of a key, an account or a plan applies at once.
- `anonymous` counts requests without a valid key per network, in shared memory.
- `throttle` raises 429 for a rejected request, and `headers` formats the decision.
"""
