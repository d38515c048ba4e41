-- Records the end of a long write, for read-your-writes on replicas: see petstore/db/replicas.py.
--
-- KEYS  the key record, the account's counters, the key's rate-limit state
--
-- Returns the key's public id. Without counters, the account's next request counts as a write anyway.

if redis.call('EXISTS', KEYS[2]) == 0 then return {public_id()} end
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], 'wrote_at', time[1] * SECOND + time[2])
return {public_id()}
