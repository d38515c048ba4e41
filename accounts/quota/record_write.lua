-- Records the end of a long write, so that accounts read their own writes (petstore/db/replicas.py).
--
-- KEYS  the key record, the account's counters, the key's rate-limit state
--
-- Returns the key's public ID. If the account has no counters, its next request is treated as a write anyway.

if redis.call('EXISTS', KEYS[2]) == 0 then return {public_id()} end
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], 'wrote_at', time[1] * SECOND + time[2])
return {public_id()}
