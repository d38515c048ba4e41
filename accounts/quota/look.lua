-- Shows a proven key what is left, in one atomic step with known.lua, which comes first. It changes nothing but
-- the number of looks (D39).
--
-- KEYS  as in known.lua, then the key's looks: a hash, in the same slot
--
-- Answers the key's public id, then 'seen', the numbers, and all fields of the key with their values.

local looks, looks_end = numbers(KEYS[4], 'looks', 'looks_end')
looks_end = math.min(looks_end, now + MINUTE)
if now >= looks_end then looks, looks_end = 0, now + MINUTE end
looks = looks + 1
redis.call('HSET', KEYS[4], 'looks', looks, 'looks_end', looks_end)
redis.call('PEXPIRE', KEYS[4], math.ceil((looks_end - now) / 1000) + 1)

return {asked, 'seen', minute_ends, minute_used, today, day_used + day_other, now, banned_until, looks, looks_end,
    unpack(redis.call('HGETALL', KEYS[1]))}
