-- The first part of admit.lua and peek.lua: authenticates a key, then takes steps 1 to 3 of limits.py.
--
-- KEYS  hashes in one cluster slot: the key record, the account's counters, the key's rate-limit state
-- ARGV  the time ('' for this server's clock), the networks that the caller has checked, '1' if the request may
--       write, the day of the last stored warning ('' for none, '-' to skip warnings) and its usage, '1' if the ban
--       is stored, then pairs of a pepper's number and the key's digest with this pepper
--
-- Returns the key's public ID and either 'miss', or 'rejected' and the reason, or 'networks' and their list.
-- Otherwise the script continues. Times are microseconds since the epoch. The constants and public_id() come from
-- redis_store.py.

local function numbers(key, ...)
    local values = redis.call('HMGET', key, ...)
    for index = 1, #values do values[index] = tonumber(values[index]) or 0 end
    return unpack(values)
end

local pepper, digest, revoked, suspended, networks, id, account_id, scopes, expires_at, per_minute, per_day,
    banned_until, ban_level, lifts = unpack(redis.call('HMGET', KEYS[1],
    'pepper_number', 'digest', 'revoked', 'suspended', 'networks', 'id', 'account_id', 'scopes', 'expires_at',
    'per_minute', 'per_day', 'banned_until', 'ban_level', 'lifts'))
local requested_id = public_id()
-- A record without `suspended` comes from a previous version of the service.
if not (pepper and suspended) then return {requested_id, 'miss'} end
expires_at, per_minute, per_day = tonumber(expires_at), tonumber(per_minute), tonumber(per_day)
banned_until, ban_level = tonumber(banned_until), tonumber(ban_level)
lifts = tonumber(lifts) or 0

local now = tonumber(ARGV[1])
if not now then
    local time = redis.call('TIME')
    now = time[1] * SECOND + time[2]
end

-- Authenticate the key.
local is_proven = false
for index = 7, #ARGV, 2 do
    if ARGV[index] == pepper then is_proven = ARGV[index + 1] == digest end
end
if not is_proven then return {requested_id, 'rejected', 'unknown'} end
if revoked == '1' then return {requested_id, 'rejected', 'revoked'} end
if expires_at > 0 and expires_at <= now then return {requested_id, 'rejected', 'expired'} end
if networks ~= '' and networks ~= ARGV[2] then return {requested_id, 'networks', networks} end
if suspended == '1' then return {requested_id, 'rejected', 'suspended'} end

-- Steps 1 and 2.
local minute_ends_at, minute_used, day, day_used, day_other, last_request_at, wrote_at, warned_day, warned = numbers(KEYS[2],
    'minute_ends', 'minute_used', 'day', 'day_used', 'day_other', 'seen_at', 'wrote_at', 'warned_day', 'warned')
if now < last_request_at and now >= last_request_at - SKEW then now = last_request_at end
local today = math.floor(now / DAY)
minute_ends_at = math.min(minute_ends_at, now + MINUTE)
if now >= minute_ends_at then minute_used = 0 end
if now < day * DAY and now >= day * DAY - NIGHT_SKEW then today = day end
if today > day then day_used, day_other = 0, 0 end

-- Step 3. Of the bans in Redis and in the record, the later one counts. If staff have lifted a ban since, the ban in
-- Redis does not count.
local redis_ban, redis_level, redis_lifts = numbers(KEYS[3], 'banned_until', 'ban_level', 'lifts')
if redis_lifts < lifts then redis_ban, redis_level = 0, 0 end
if redis_ban > banned_until then banned_until, ban_level = redis_ban, redis_level end
local banned = now < banned_until
