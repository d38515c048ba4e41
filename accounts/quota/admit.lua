-- Decides on the request of a proven key and counts it, in one atomic step with known.lua, which comes first.
--
-- Answers the key's public id, then 'counted' and the numbers: see replies.py. What warns goes on record before
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

-- A refusal: is it a strike, and does it ban?
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
        -- All who find it before it is on record find the same ban.
        if ban_from > now or ban_from <= now - STRIKE_WINDOW then ban_from = now end
        local clean_days = math.max(0, math.floor((ban_from - banned_until) / STEP_BACK_AFTER))
        local level = math.max(0, ban_level - clean_days)
        local ends, next_level = ban_from + BAN_LENGTHS[level + 1], math.min(level + 1, #BAN_LENGTHS - 1)
        if ARGV[6] ~= '1' then
            redis.call('HSET', KEYS[3], 'ban_from', ban_from)
            return {asked, 'bans', id, ban_from, ends, next_level, strikes}
        end
        banned_until, ban_level, strikes = ends, next_level, 0
    end
    redis.call('HSET', KEYS[3], 'told_until', told_until, 'strikes', strikes, 'strikes_end', strikes_end,
        'banned_until', banned_until, 'ban_level', ban_level, 'lifts', math.max(lifts, own_lifts))
    local last = math.max(told_until, strikes_end, banned_until)
    redis.call('PEXPIRE', KEYS[3], math.ceil((last - now) / 1000) + 1)
end

return {asked, 'counted', id, account_id, scopes, per_minute, per_day, admitted and 1 or 0,
    minute_ends, minute_used, today, day_used + day_other, now, banned_until, pepper, math.max(0, now - wrote_at)}
