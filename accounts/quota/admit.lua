-- Proves a key, decides on its request and counts it: everything in one atomic step, at one clock.
--
-- KEYS  the key's facts, its account's counters, the key's standing: hashes, in one cluster slot
-- ARGV  the time ('' for this server's clock), the networks that the caller has checked, '1' if the request
--       may write, then pairs of a pepper's number and the key's digest with it
--
-- Answers the key's public id, then 'miss', or 'refused' and why, or 'networks' and their list, or 'counted'
-- and the numbers: see redis.py. Times are microseconds since the epoch. The rules are those of database_store.py;
-- the constants, and public_id(), come from Python.

local function numbers(key, ...)
    local values = redis.call('HMGET', key, ...)
    for index = 1, #values do values[index] = tonumber(values[index]) or 0 end
    return unpack(values)
end

local pepper, digest, revoked, networks, id, account_id, scopes, expires_at, per_minute, per_day,
    banned_until, ban_level, lifts = unpack(redis.call('HMGET', KEYS[1],
    'pepper_number', 'digest', 'revoked', 'networks', 'id', 'account_id', 'scopes', 'expires_at',
    'per_minute', 'per_day', 'banned_until', 'ban_level', 'lifts'))
local asked = public_id()
if not pepper then return {asked, 'miss'} end
expires_at, per_minute, per_day = tonumber(expires_at), tonumber(per_minute), tonumber(per_day)
banned_until, ban_level = tonumber(banned_until), tonumber(ban_level)
lifts = tonumber(lifts) or 0

local now = tonumber(ARGV[1])
if not now then
    local time = redis.call('TIME')
    now = time[1] * SECOND + time[2]
end

-- The key.
local proven = false
for index = 4, #ARGV, 2 do
    if ARGV[index] == pepper then proven = ARGV[index + 1] == digest end
end
if not proven then return {asked, 'refused', 'unknown'} end
if revoked == '1' then return {asked, 'refused', 'revoked'} end
if expires_at > 0 and expires_at <= now then return {asked, 'refused', 'expired'} end
if networks ~= '' and networks ~= ARGV[2] then return {asked, 'networks', networks} end

-- The windows.
local minute_ends, minute_used, day, day_used, day_other, seen_at, wrote_at = numbers(KEYS[2],
    'minute_ends', 'minute_used', 'day', 'day_used', 'day_other', 'seen_at', 'wrote_at')
if now < seen_at and now >= seen_at - SKEW then now = seen_at end
local today = math.floor(now / DAY)
minute_ends = math.min(minute_ends, now + MINUTE)
if now >= minute_ends then minute_used = 0 end
if now < day * DAY and now >= day * DAY - NIGHT_SKEW then today = day end
if today > day then day_used, day_other = 0, 0 end

-- The ban: what this server knows, or what the database knew, whichever is later.
-- What it knew before staff lifted a ban is void.
local told_until, strikes, strikes_end, own_ban, own_level, own_lifts = numbers(KEYS[3],
    'told_until', 'strikes', 'strikes_end', 'banned_until', 'ban_level', 'lifts')
if own_lifts < lifts then told_until, strikes, strikes_end, own_ban, own_level = 0, 0, 0, 0, 0 end
if own_ban > banned_until then banned_until, ban_level = own_ban, own_level end
local banned = now < banned_until

local admitted = not banned and minute_used < per_minute and day_used + day_other < per_day
if admitted then
    if now >= minute_ends then minute_ends = now + MINUTE end
    minute_used, day_used = minute_used + 1, day_used + 1
end
-- When the account last may have written. A server that does not know can't tell how long ago it was.
if ARGV[3] == '1' or wrote_at == 0 then wrote_at = now end
redis.call('HSET', KEYS[2], 'minute_ends', minute_ends, 'minute_used', minute_used,
    'day', today, 'day_used', day_used, 'day_other', day_other, 'seen_at', now, 'wrote_at', wrote_at)
if today ~= day then
    redis.call('PEXPIRE', KEYS[2], math.ceil(((today + 1) * DAY + MINUTE + SKEW - now) / 1000))
end

-- A refusal: is it a strike, and does it ban?
local new_ban_strikes = 0
if not admitted and not banned then
    if now >= strikes_end then strikes = 0 end
    if now < told_until then
        if strikes == 0 then strikes_end = now + STRIKE_WINDOW end
        strikes = strikes + 1
    end
    local free_at = now
    if minute_used >= per_minute then free_at = math.max(free_at, minute_ends) end
    if day_used + day_other >= per_day then free_at = math.max(free_at, (today + 1) * DAY) end
    told_until = now + math.max(1, math.ceil((free_at - now) / SECOND)) * SECOND
    if strikes >= math.max(MIN_STRIKES, math.ceil(per_minute / 2)) then
        local clean_days = math.max(0, math.floor((now - banned_until) / STEP_BACK_AFTER))
        local level = math.max(0, ban_level - clean_days)
        banned_until = now + BAN_LENGTHS[level + 1]
        ban_level = math.min(level + 1, #BAN_LENGTHS - 1)
        new_ban_strikes, strikes = strikes, 0
    end
    redis.call('HSET', KEYS[3], 'told_until', told_until, 'strikes', strikes, 'strikes_end', strikes_end,
        'banned_until', banned_until, 'ban_level', ban_level, 'lifts', math.max(lifts, own_lifts))
    local last = math.max(told_until, strikes_end, banned_until)
    redis.call('PEXPIRE', KEYS[3], math.ceil((last - now) / 1000) + 1)
end

return {asked, 'counted', id, account_id, scopes, per_minute, per_day, admitted and 1 or 0,
    minute_ends, minute_used, today, day_used + day_other, now, banned_until, new_ban_strikes, ban_level, pepper,
    math.max(0, now - wrote_at)}
