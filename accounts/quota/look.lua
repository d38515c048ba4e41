-- Shows a proven key what is left, in one atomic step with known.lua, which comes first. It changes nothing but
-- the number of looks (D39).
--
-- KEYS  as in known.lua, then the key's looks: a hash, in the same slot
--
-- Answers the key's public id, then 'seen' and what there is: see redis_store.py.

local account_name, plan, account_created_at, name, created_at, last_used_at = unpack(redis.call('HMGET', KEYS[1],
    'account_name', 'plan', 'account_created_at', 'name', 'created_at', 'last_used_at'))

local looks, looks_end = numbers(KEYS[4], 'looks', 'looks_end')
looks_end = math.min(looks_end, now + MINUTE)
if now >= looks_end then looks, looks_end = 0, now + MINUTE end
looks = looks + 1
redis.call('HSET', KEYS[4], 'looks', looks, 'looks_end', looks_end)
redis.call('PEXPIRE', KEYS[4], math.ceil((looks_end - now) / 1000) + 1)

return {asked, 'seen', id, account_id, scopes, per_minute, per_day, minute_ends, minute_used, today,
    day_used + day_other, now, banned_until, looks, looks_end, pepper, expires_at, account_created_at, created_at,
    last_used_at, networks, account_name, plan, name}
