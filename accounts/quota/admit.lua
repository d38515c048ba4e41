-- Follows verify_key.lua in the same script: takes steps 4 to 6 of limits.py.
--
-- Returns the key's public ID, 'counted' and the values that redis_store.py parses. The database stores a warning or
-- a ban before it takes effect, since the process may die in between (D41). For this, the script counts nothing and
-- returns 'threshold' or 'ban' with the data to store, and the caller runs it again.

-- Step 4.
local admitted = not banned and minute_used < per_minute and day_used + day_other < per_day
local usage = day_used + day_other + (admitted and 1 or 0)
if warned_day ~= today then warned = 0 end
if tonumber(ARGV[4]) == today then
    warned = math.max(warned, tonumber(ARGV[5]))
    redis.call('HSET', KEYS[2], 'warned_day', today, 'warned', warned)
end
for _, percentage in ipairs(THRESHOLDS) do
    local threshold = math.ceil(per_day * percentage / 100)
    if threshold > warned and threshold <= usage and ARGV[4] ~= '-' then
        return {requested_id, 'threshold', account_id, today, per_day, usage}
    end
end

-- Step 5.
if admitted then
    if now >= minute_ends_at then minute_ends_at = now + MINUTE end
    minute_used, day_used = minute_used + 1, day_used + 1
end
-- If the last write is unknown, as after a restart, assume that it is this request.
if ARGV[3] == '1' or wrote_at == 0 then wrote_at = now end
redis.call('HSET', KEYS[2], 'minute_ends', minute_ends_at, 'minute_used', minute_used,
    'day', today, 'day_used', day_used, 'day_other', day_other, 'seen_at', now, 'wrote_at', wrote_at)
if today ~= day then
    redis.call('PEXPIRE', KEYS[2], math.ceil(((today + 1) * DAY + MINUTE + SKEW - now) / 1000))
end

-- Step 6.
if not admitted and not banned then
    local rejecting_until = 0  -- 6a
    if minute_used >= per_minute then rejecting_until = minute_ends_at end
    if day_used + day_other >= per_day then rejecting_until = math.max(rejecting_until, (today + 1) * DAY) end
    lifts = math.max(lifts, redis_lifts)
    -- window_lifts is the value of `lifts` at the start of the strike window. A worker of the previous version
    -- increments `lifts` without resetting the counts.
    local window_ends, first_rejection, last_strike, rejections, strikes, window_lifts, ban_from = numbers(
        KEYS[3], 'refusing_until', 'first_refusal_at', 'last_strike_at', 'window_refusals', 'window_strikes',
        'window_lifts', 'ban_from')
    if window_ends ~= rejecting_until or window_lifts ~= lifts or now >= first_rejection + STRIKE_WINDOW then
        first_rejection, last_strike, rejections, strikes, ban_from = now, 0, 0, 0, 0
    end
    rejections = rejections + 1  -- 6b
    if now >= math.max(first_rejection + FIRST_STRIKE_AFTER, last_strike + STRIKE_INTERVAL) then
        last_strike, strikes = now, strikes + 1
    end
    -- 6c. Keep in step with get_rejections_to_ban() in bans.py.
    local rejections_to_ban = math.max(MIN_REJECTIONS_TO_BAN, math.ceil(per_minute / 2))
    if strikes >= STRIKES_TO_BAN and rejections >= rejections_to_ban then
        -- Until the ban is stored, concurrent requests reuse its start.
        if ban_from == 0 or ban_from > now then ban_from = now end
        local clean_days = math.max(0, math.floor((ban_from - banned_until) / STEP_BACK_AFTER))
        local level = math.max(0, ban_level - clean_days)
        local ban_ends, next_level = ban_from + BAN_LENGTHS[level + 1], math.min(level + 1, #BAN_LENGTHS - 1)
        if ARGV[6] ~= '1' then
            redis.call('HSET', KEYS[3], 'ban_from', ban_from)
            return {requested_id, 'ban', id, ban_from, ban_ends, next_level, rejections}
        end
        banned_until, ban_level = ban_ends, next_level
    end
    redis.call('HSET', KEYS[3], 'refusing_until', rejecting_until, 'first_refusal_at', first_rejection,
        'last_strike_at', last_strike, 'window_refusals', rejections, 'window_strikes', strikes,
        'window_lifts', lifts, 'ban_from', ban_from, 'banned_until', banned_until, 'ban_level', ban_level,
        'lifts', lifts)
    local expires_at = math.max(first_rejection + STRIKE_WINDOW, banned_until)
    redis.call('PEXPIRE', KEYS[3], math.ceil((expires_at - now) / 1000) + 1)
end

return {requested_id, 'counted', id, account_id, scopes, per_minute, per_day, minute_ends_at, minute_used, today,
    day_used + day_other, now, banned_until, pepper, admitted and 1 or 0, math.max(0, now - wrote_at)}
