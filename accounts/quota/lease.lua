-- Grants a lease to publish a key record, before the record is read from the database. A change to the key revokes
-- the lease, so that a record read before the change cannot overwrite it, no matter how late it arrives (D19).
--
-- KEYS  the key record, the account's counters, the key's rate-limit state
-- ARGV  a random token, the duration of the lease (ms) if nothing else is cached for the key
--
-- Returns the key's public ID and the lease. Concurrent readers share a lease, since each of them reads after the
-- lease was granted.

local lease = redis.call('HGET', KEYS[1], 'lease')
if lease then return {public_id(), lease} end
local is_new = redis.call('EXISTS', KEYS[1]) == 0
redis.call('HSET', KEYS[1], 'lease', ARGV[1])
if is_new then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {public_id(), ARGV[1]}
