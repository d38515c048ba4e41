-- Stores what the database says of a key, unless something read later is there already.
--
-- KEYS  the key's facts, its account's counters, the key's standing
-- ARGV  when the database was read, how long to keep the facts (ms), '1' to forget the standing, the day and
--       the requests that the database has counted, then pairs of a field and its value
--
-- Answers 1 if the facts were stored.

local read_at = tonumber(redis.call('HGET', KEYS[1], 'read_at'))
if read_at and tonumber(ARGV[1]) < read_at then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'read_at', ARGV[1], unpack(ARGV, 6))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[3] == '1' then redis.call('DEL', KEYS[3]) end

-- A server that lost its counters, or was away while the database counted, takes up the database's count.
local day, day_used = tonumber(ARGV[4]), tonumber(ARGV[5])
local own = redis.call('HMGET', KEYS[2], 'day', 'day_used')
local own_day, own_used = tonumber(own[1]) or 0, tonumber(own[2]) or 0
if day > own_day or (day == own_day and day_used > own_used) then
    redis.call('HSET', KEYS[2], 'day', day, 'day_used', day_used)
    redis.call('PEXPIRE', KEYS[2], math.ceil((DAY + MINUTE + SKEW) / 1000))
end
return 1
