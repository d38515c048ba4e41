"""Rate limits and quotas: the only package that counts requests against limits."""
