-- Notes that an account may have written just now, where a write took long: see petstore/db/replicas.py.
--
-- KEYS  the key's facts, its account's counters, the key's standing
--
-- Answers the key's public id. An account without counters has its next request count as a write in any case.

if redis.call('EXISTS', KEYS[2]) == 0 then return {public_id()} end
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], 'wrote_at', time[1] * SECOND + time[2])
return {public_id()}
