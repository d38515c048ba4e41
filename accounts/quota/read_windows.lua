-- Reads the account's counters without a key.
--
-- KEYS  as in verify_key.lua
-- ARGV  the time ('' for this server's clock)
--
-- Returns the public ID, the time, and the counters in the order of COUNTER_FIELDS, all 0 if the account has none.

local now = tonumber(ARGV[1])
if not now then
    local time = redis.call('TIME')
    now = time[1] * SECOND + time[2]
end
local counters = redis.call('HMGET', KEYS[2], 'day', 'day_used', 'day_other', 'minute_ends', 'minute_used', 'seen_at')
for index = 1, #counters do counters[index] = tonumber(counters[index]) or 0 end
counters[2] = counters[2] + counters[3]
return {public_id(), now, unpack(counters)}
