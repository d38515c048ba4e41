-- Runs after verify_key.lua, in the same script: steps 4 to 6 of limits.py.
--
-- Returns the key's public id, 'counted' and the numbers that redis_store.py parses. The database must store a
-- warning or a ban before it takes effect, since the process may die in between (D41). Before such a request,
-- the script therefore returns 'reaches' or 'bans' with the data to store, and the caller runs it again.

local admitted = not banned and minute_used < per_minute and day_used + day_other < per_day

-- Step 4: would the request reach a threshold that the account was not warned of?
local use = day_used + day_other + (admitted and 1 or 0)
if warned_day ~= today then warned = 0 end
if tonumber(ARGV[4]) == today then
    warned = math.max(warned, tonumber(ARGV[5]))
    redis.call('HSET', KEYS[2], 'warned_day', today, 'warned', warned)
end
for _, threshold in ipairs(THRESHOLDS) do
    local mark = math.ceil(per_day * threshold / 100)
    if mark > warned and mark <= use and ARGV[4] ~= '-' then
        return {asked, 'reaches', account_id, today, per_day, use}
    end
end

-- Step 5.
if admitted then
    if now >= minute_ends then minute_ends = now + MINUTE end
    minute_used, day_used = minute_used + 1, day_used + 1
end
-- The last write. If it is unknown, as after a restart, assume now.
if ARGV[3] == '1' or wrote_at == 0 then wrote_at = now end
redis.call('HSET', KEYS[2], 'minute_ends', minute_ends, 'minute_used', minute_used,
    'day', today, 'day_used', day_used, 'day_other', day_other, 'seen_at', now, 'wrote_at', wrote_at)
if today ~= day then
    redis.call('PEXPIRE', KEYS[2], math.ceil(((today + 1) * DAY + MINUTE + SKEW - now) / 1000))
end

-- Step 6.
if not admitted and not banned then
    local rejecting_until = 0  -- 6a
    if minute_used >= per_minute then rejecting_until = minute_ends end
    if day_used + day_other >= per_day then rejecting_until = math.max(rejecting_until, (today + 1) * DAY) end
    lifts = math.max(lifts, own_lifts)
    -- window_lifts: the lifts when this strike window started. A worker of the previous version raises `lifts`
    -- without resetting the counts.
    local counted_until, first_rejection, last_strike, rejections, strikes, counted_lifts, ban_from = numbers(
        KEYS[3], 'refusing_until', 'first_refusal_at', 'last_strike_at', 'window_refusals', 'window_strikes',
        'window_lifts', 'ban_from')
    if counted_until ~= rejecting_until or counted_lifts ~= lifts or now >= first_rejection + STRIKE_WINDOW then
        first_rejection, last_strike, rejections, strikes, ban_from = now, 0, 0, 0, 0
    end
    rejections = rejections + 1  -- 6b
    if now >= math.max(first_rejection + FIRST_STRIKE_AFTER, last_strike + STRIKE_INTERVAL) then
        last_strike, strikes = now, strikes + 1
    end
    if strikes >= STRIKES_TO_BAN and rejections >= math.max(MIN_REJECTIONS_TO_BAN, math.ceil(per_minute / 2)) then
        -- 6c. Concurrent requests find the same ban until it is stored.
        if ban_from == 0 or ban_from > now then ban_from = now end
        local clean_days = math.max(0, math.floor((ban_from - banned_until) / STEP_BACK_AFTER))
        local level = math.max(0, ban_level - clean_days)
        local ends, next_level = ban_from + BAN_LENGTHS[level + 1], math.min(level + 1, #BAN_LENGTHS - 1)
        if ARGV[6] ~= '1' then
            redis.call('HSET', KEYS[3], 'ban_from', ban_from)
            return {asked, 'bans', id, ban_from, ends, next_level, rejections}
        end
        banned_until, ban_level = ends, next_level
    end
    redis.call('HSET', KEYS[3], 'refusing_until', rejecting_until, 'first_refusal_at', first_rejection,
        'last_strike_at', last_strike, 'window_refusals', rejections, 'window_strikes', strikes,
        'window_lifts', lifts, 'ban_from', ban_from, 'banned_until', banned_until, 'ban_level', ban_level,
        'lifts', lifts)
    local last = math.max(first_rejection + STRIKE_WINDOW, banned_until)
    redis.call('PEXPIRE', KEYS[3], math.ceil((last - now) / 1000) + 1)
end

return {asked, 'counted', id, account_id, scopes, per_minute, per_day, minute_ends, minute_used, today,
    day_used + day_other, now, banned_until, pepper, admitted and 1 or 0, math.max(0, now - wrote_at)}
