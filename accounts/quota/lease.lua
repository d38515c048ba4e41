-- Grants the right to publish what the database is about to be asked: facts that were read before a change
-- must not be stored after it, however long their reader stood still (D19). A change revokes the lease.
--
-- KEYS  the key's facts, its account's counters, the key's standing
-- ARGV  a random token, how long the lease lasts (ms)
--
-- Answers the key's public id and the lease. Concurrent readers share one: each of them reads after it was granted.

local lease = redis.call('HGET', KEYS[1], 'lease')
if lease then return {public_id(), lease} end
local is_new = redis.call('EXISTS', KEYS[1]) == 0
redis.call('HSET', KEYS[1], 'lease', ARGV[1])
if is_new then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {public_id(), ARGV[1]}
