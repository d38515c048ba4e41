-- Follows verify_key.lua in the same script: counts the peek and reads the windows (D39).
--
-- KEYS  as in verify_key.lua, then a hash with the key's peeks
--
-- Returns the key's public ID, 'peeked', eight numbers, and the names and values of the key record's fields.

local peeks, peeks_end = numbers(KEYS[4], 'looks', 'looks_end')
peeks_end = math.min(peeks_end, now + MINUTE)
if now >= peeks_end then peeks, peeks_end = 0, now + MINUTE end
peeks = peeks + 1
redis.call('HSET', KEYS[4], 'looks', peeks, 'looks_end', peeks_end)
redis.call('PEXPIRE', KEYS[4], math.ceil((peeks_end - now) / 1000) + 1)

return {requested_id, 'peeked', minute_ends_at, minute_used, today, day_used + day_other, now, banned_until,
    peeks, peeks_end, unpack(redis.call('HGETALL', KEYS[1]))}
