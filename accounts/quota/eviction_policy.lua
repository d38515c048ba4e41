-- Reads whether the server may evict keys. Uses INFO, because managed servers often forbid CONFIG GET.

local info = redis.pcall('INFO', 'memory')
if type(info) ~= 'string' then info = '' end
return {public_id(), string.match(info, 'maxmemory:(%d+)') or '0',
    string.match(info, 'maxmemory_policy:(%S+)') or 'noeviction'}
