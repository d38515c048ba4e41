-- Stores what the database says of a key, unless a later version of it is there already.
--
-- KEYS  the key's facts, its account's counters, the key's standing
-- ARGV  the version, how long to keep the facts (ms), the day, the requests of that day that the database was
--       told of by others and those that it admitted itself, then pairs of a field and its value
--
-- Answers the key's public id, 1 if the facts were stored, the version that is there now, and 1 if the account
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

local counters, version = own[1] and 1 or 0, tonumber(redis.call('HGET', KEYS[1], 'version'))
if version and tonumber(ARGV[1]) < version then return {public_id(), 0, version, counters} end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'version', ARGV[1], unpack(ARGV, 6))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {public_id(), 1, tonumber(ARGV[1]), counters}
