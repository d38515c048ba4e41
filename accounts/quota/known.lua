-- Begins admit.lua and look.lua: proves a key, and finds its account's windows and its ban as they are.
--
-- KEYS  the key's facts, its account's counters, the key's standing: hashes, in one cluster slot
-- ARGV  the time ('' for this server's clock), the networks that the caller has checked, '1' if the request
--       may write, the day ('' before, '-' not to ask) and the use that the account was warned of, '1' if a ban
--       is on record, then pairs of a pepper's number and the key's digest with it
--
-- Answers the key's public id, then 'miss', or 'refused' and why, or 'networks' and their list, or goes on.
-- Times are microseconds since the epoch. The rules are those of database_store.py; the constants, and
-- public_id(), come from Python.

local function numbers(key, ...)
    local values = redis.call('HMGET', key, ...)
    for index = 1, #values do values[index] = tonumber(values[index]) or 0 end
    return unpack(values)
end

local pepper, digest, revoked, suspended, networks, id, account_id, scopes, expires_at, per_minute, per_day,
    banned_until, ban_level, lifts = unpack(redis.call('HMGET', KEYS[1],
    'pepper_number', 'digest', 'revoked', 'suspended', 'networks', 'id', 'account_id', 'scopes', 'expires_at',
    'per_minute', 'per_day', 'banned_until', 'ban_level', 'lifts'))
local asked = public_id()
-- Without `suspended` the facts are of a version of the service that published less.
if not (pepper and suspended) then return {asked, 'miss'} end
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
for index = 7, #ARGV, 2 do
    if ARGV[index] == pepper then proven = ARGV[index + 1] == digest end
end
if not proven then return {asked, 'refused', 'unknown'} end
if revoked == '1' then return {asked, 'refused', 'revoked'} end
if expires_at > 0 and expires_at <= now then return {asked, 'refused', 'expired'} end
if networks ~= '' and networks ~= ARGV[2] then return {asked, 'networks', networks} end
if suspended == '1' then return {asked, 'refused', 'suspended'} end

-- The windows.
local minute_ends, minute_used, day, day_used, day_other, seen_at, wrote_at, warned_day, warned = numbers(KEYS[2],
    'minute_ends', 'minute_used', 'day', 'day_used', 'day_other', 'seen_at', 'wrote_at', 'warned_day', 'warned')
if now < seen_at and now >= seen_at - SKEW then now = seen_at end
local today = math.floor(now / DAY)
minute_ends = math.min(minute_ends, now + MINUTE)
if now >= minute_ends then minute_used = 0 end
if now < day * DAY and now >= day * DAY - NIGHT_SKEW then today = day end
if today > day then day_used, day_other = 0, 0 end

-- The ban: what this server knows, or what the database knew, whichever is later.
-- What it knew before staff lifted a ban is void.
local own_ban, own_level, own_lifts = numbers(KEYS[3], 'banned_until', 'ban_level', 'lifts')
if own_lifts < lifts then own_ban, own_level = 0, 0 end
if own_ban > banned_until then banned_until, ban_level = own_ban, own_level end
local banned = now < banned_until
