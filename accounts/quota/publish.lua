-- Stores a key record unless a later version is stored. If no record of an existing key is cached, only the holder
-- of a lease may store one (see lease.lua), because the version to compare with may have expired together with the
-- record. A change, which has no lease, then stores only its version, which revokes the lease.
--
-- KEYS  the key record, the account's counters, the key's rate-limit state
-- ARGV  the version, the record's lifetime (ms), the day, that day's requests as counted by Redis and by the
--       database, the lease ('' for a change), then pairs of a field and its value
--
-- Returns the key's public ID, 1 if the record or version was stored, the version that is stored now, and 1 if the
-- account had counters.

-- The day's count is the sum of two counts that only grow during the day: what Redis admitted, which reaches the
-- database with a delay, and what the database admitted while Redis was unavailable. The greater value of each is
-- therefore the later one, in any order of arrival. A server that lost its counters gets its own count back.
local day, in_redis, in_database = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local stored = redis.call('HMGET', KEYS[2], 'day', 'day_used', 'day_other')
local has_counters = stored[1] and 1 or 0
local stored_day = tonumber(stored[1]) or 0
local stored_in_redis, stored_in_database = tonumber(stored[2]) or 0, tonumber(stored[3]) or 0
if day > stored_day or (day == stored_day and (in_redis > stored_in_redis or in_database > stored_in_database)) then
    if day == stored_day then
        in_redis = math.max(in_redis, stored_in_redis)
        in_database = math.max(in_database, stored_in_database)
    end
    redis.call('HSET', KEYS[2], 'day', day, 'day_used', in_redis, 'day_other', in_database)
    redis.call('PEXPIRE', KEYS[2], math.ceil((DAY + MINUTE + SKEW) / 1000))
end

local cached = redis.call('HMGET', KEYS[1], 'version', 'lease', 'id')
local version, is_known = tonumber(cached[1]), (tonumber(cached[3]) or 0) > 0
local may_store = is_known or cached[2] == ARGV[6]
local is_outdated = version and tonumber(ARGV[1]) < version
local lost_its_lease = not may_store and ARGV[6] ~= ''
if is_outdated or lost_its_lease then
    return {public_id(), 0, version or 0, has_counters}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'version', ARGV[1])
if may_store then redis.call('HSET', KEYS[1], unpack(ARGV, 7)) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {public_id(), 1, tonumber(ARGV[1]), has_counters}
