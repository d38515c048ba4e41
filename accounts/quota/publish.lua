-- Stores what the database says of a key, unless a later version of it is there already. Where Redis knows no
-- facts of the key, only the holder of a lease stores them (see lease.lua): the version that would tell
-- whether they are outdated expires with the facts. Any other change leaves its version, and revokes the lease.
--
-- KEYS  the key's facts, its account's counters, the key's standing
-- ARGV  the version, how long to keep the facts (ms), the day, the requests of that day that the database was
--       told of by others and those that it admitted itself, the lease ('' for a change), then pairs of a field
--       and its value
--
-- Answers the key's public id, 1 if Redis took them, the version that is there now, and 1 if the account
-- had counters before.

-- The day's count has two parts, each of which has one owner and only grows: what Redis admits, which the
-- database is told later, and what the database admits itself while Redis is away, which is told here. So the
-- greater number of each part is the later one, in whatever order they come, and their sum counts all. A
-- server that lost its counters takes up its own part again from what the database was told.
local day, told, here = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local own = redis.call('HMGET', KEYS[2], 'day', 'day_used', 'day_other')
local own_day, own_used, own_other = tonumber(own[1]) or 0, tonumber(own[2]) or 0, tonumber(own[3]) or 0
if day > own_day or (day == own_day and (told > own_used or here > own_other)) then
    if day == own_day then told, here = math.max(told, own_used), math.max(here, own_other) end
    redis.call('HSET', KEYS[2], 'day', day, 'day_used', told, 'day_other', here)
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
