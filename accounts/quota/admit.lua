-- Decides on the request of a proven key and counts it, in one atomic step with known.lua, which comes first.
--
-- Answers the key's public id, then 'counted' and the numbers: see redis_store.py. What warns goes on record before
-- it comes true, for whoever should write it may die (D41): so first it answers 'reaches' or 'bans' and the facts.

local admitted = not banned and minute_used < per_minute and day_used + day_other < per_day

-- What it comes to: is the account warned?
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

-- A refusal: is it a strike, and does it ban (D26)?
if not admitted and not banned then
    local refusing_until = 0
    if minute_used >= per_minute then refusing_until = minute_ends end
    if day_used + day_other >= per_day then refusing_until = math.max(refusing_until, (today + 1) * DAY) end
    lifts = math.max(lifts, own_lifts)
    -- The counts belong to one refusing window, and end when a ban is lifted. They have a note of the lifts of
    -- their own: a worker of the previous version raises `lifts` and leaves the counts as they are.
    local counted_until, first_refusal, last_strike, refusals, strikes, counted_lifts, ban_from = numbers(
        KEYS[3], 'refusing_until', 'first_refusal_at', 'last_strike_at', 'window_refusals', 'window_strikes',
        'window_lifts', 'ban_from')
    if counted_until ~= refusing_until or counted_lifts ~= lifts or now >= first_refusal + STRIKE_WINDOW then
        first_refusal, last_strike, refusals, strikes, ban_from = now, 0, 0, 0, 0
    end
    refusals = refusals + 1
    if now >= math.max(first_refusal + FIRST_STRIKE_AFTER, last_strike + STRIKE_INTERVAL) then
        last_strike, strikes = now, strikes + 1
    end
    if strikes >= STRIKES_TO_BAN and refusals >= math.max(MIN_REFUSALS_TO_BAN, math.ceil(per_minute / 2)) then
        -- All who find it before it is on record find the same ban.
        if ban_from == 0 or ban_from > now then ban_from = now end
        local clean_days = math.max(0, math.floor((ban_from - banned_until) / STEP_BACK_AFTER))
        local level = math.max(0, ban_level - clean_days)
        local ends, next_level = ban_from + BAN_LENGTHS[level + 1], math.min(level + 1, #BAN_LENGTHS - 1)
        if ARGV[6] ~= '1' then
            redis.call('HSET', KEYS[3], 'ban_from', ban_from)
            return {asked, 'bans', id, ban_from, ends, next_level, refusals}
        end
        banned_until, ban_level = ends, next_level
    end
    redis.call('HSET', KEYS[3], 'refusing_until', refusing_until, 'first_refusal_at', first_refusal,
        'last_strike_at', last_strike, 'window_refusals', refusals, 'window_strikes', strikes,
        'window_lifts', lifts, 'ban_from', ban_from, 'banned_until', banned_until, 'ban_level', ban_level,
        'lifts', lifts)
    local last = math.max(first_refusal + STRIKE_WINDOW, banned_until)
    redis.call('PEXPIRE', KEYS[3], math.ceil((last - now) / 1000) + 1)
end

return {asked, 'counted', id, account_id, scopes, per_minute, per_day, minute_ends, minute_used, today,
    day_used + day_other, now, banned_until, pepper, admitted and 1 or 0, math.max(0, now - wrote_at)}
