-- Stores a key record unless a later version is stored. If none is cached, only the holder of a lease may store
-- one (see lease.lua), because the version to compare with expired together with the record. Every other change
-- stores its version only, and revokes the lease.
--
-- KEYS  the key record, the account's counters, the key's rate-limit state
-- ARGV  the version, the record's lifetime (ms), the day, that day's requests as counted by Redis and as counted
--       by the database, the lease ('' for a change), then pairs of a field and its value
--
-- Returns the key's public id, 1 if stored, the version that is stored now, and 1 if the account had counters.

-- The day's count is the sum of two parts that only grow: what Redis admitted, which reaches the database with
-- delay, and what the database admitted while Redis was unavailable. The greater value of each part is therefore
-- the later one, in any order of arrival. A server that lost its counters restores its part from the database.
local day, in_redis, in_database = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local own = redis.call('HMGET', KEYS[2], 'day', 'day_used', 'day_other')
local own_day, own_used, own_other = tonumber(own[1]) or 0, tonumber(own[2]) or 0, tonumber(own[3]) or 0
if day > own_day or (day == own_day and (in_redis > own_used or in_database > own_other)) then
    if day == own_day then
        in_redis, in_database = math.max(in_redis, own_used), math.max(in_database, own_other)
    end
    redis.call('HSET', KEYS[2], 'day', day, 'day_used', in_redis, 'day_other', in_database)
    redis.call('PEXPIRE', KEYS[2], math.ceil((DAY + MINUTE + SKEW) / 1000))
end

local counters = own[1] and 1 or 0
local held = redis.call('HMGET', KEYS[1], 'version', 'lease', 'id')
local version, is_known = tonumber(held[1]), (tonumber(held[3]) or 0) > 0
local may_store = is_known or held[2] == ARGV[6]
if version and tonumber(ARGV[1]) < version or not may_store and ARGV[6] ~= '' then
    return {public_id(), 0, version or 0, counters}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'version', ARGV[1])
if may_store then redis.call('HSET', KEYS[1], unpack(ARGV, 7)) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {public_id(), 1, tonumber(ARGV[1]), counters}
