-- What wrk sends: prepared beforehand, so that it takes little of the cores that it shares with the service.
-- Arguments: the operation (list, list100, get, create, keyed, replayed, orders, mixed, or a path), the file of
-- keys, the number of pets and, optionally, the milliseconds that each connection waits before a request.
-- `keyed` creates with a new Idempotency-Key each, `replayed` sends one again and again; `orders` places an order
-- and cancels it, which are two requests.

local prepared, sent = {}, 0

local function one(operation, key, pets)
    local headers = { ["Authorization"] = "Bearer " .. key }
    if operation:sub(1, 1) == "/" then return wrk.format("GET", operation, headers) end
    if operation == "list" then return wrk.format("GET", "/v1/pets?limit=20&status=available", headers) end
    if operation == "list100" then return wrk.format("GET", "/v1/pets?limit=100&status=available", headers) end
    if operation == "get" then return wrk.format("GET", "/v1/pets/" .. math.random(pets), headers) end
    headers["Content-Type"] = "application/json"
    if operation == "replayed" then
        headers["Idempotency-Key"] = "replayed"
        return wrk.format("POST", "/v1/pets", headers, '{"name": "Replayed", "categoryId": 1}')
    end
    if operation == "keyed" then
        headers["Idempotency-Key"] = string.format("%d-%d-%d", os.time(), math.random(1e9), math.random(1e9))
    end
    local body = string.format('{"name": "Pet %d", "categoryId": %d}', math.random(1e6), math.random(50))
    return wrk.format("POST", "/v1/pets", headers, body)
end

-- Each order is cancelled with the key that placed it, so that the stock never runs out.
local function place_and_cancel(keys, pets)
    local key_of, placed, last = {}, {}, 0
    function request()
        local order = table.remove(placed)
        if order then
            local headers = { ["Authorization"] = "Bearer " .. order.key }
            return wrk.format("DELETE", "/v1/store/orders/" .. order.id, headers)
        end
        repeat last = last % pets + 1 until (last - 1) % 5 % 2 == 0 -- fill.py: those are available.
        key_of[tostring(last)] = keys[last % #keys + 1]
        local headers = { ["Authorization"] = "Bearer " .. key_of[tostring(last)] }
        headers["Content-Type"] = "application/json"
        return wrk.format("POST", "/v1/store/orders", headers, '{"petId": ' .. last .. "}")
    end
    function response(status, _, body)
        if status ~= 201 then return end
        local id, pet = body:match('"id":%s*(%d+)'), body:match('"petId":%s*(%d+)')
        placed[#placed + 1] = { id = id, key = key_of[pet] }
    end
end

function init(arguments)
    local operation, keys, pets = arguments[1], {}, tonumber(arguments[3])
    for line in io.lines(arguments[2]) do keys[#keys + 1] = line end
    local pause = tonumber(arguments[4])
    if pause then delay = function() return pause end end
    if operation == "orders" then return place_and_cancel(keys, pets) end
    math.randomseed(os.time())
    for index = 1, operation == "keyed" and 60000 or 10000 do
        local what, dice = operation, math.random(100)
        if operation == "mixed" then what = dice <= 80 and "list" or dice <= 95 and "get" or "create" end
        prepared[index] = one(what, keys[math.random(#keys)], pets)
    end
end

function request()
    sent = sent % #prepared + 1
    return prepared[sent]
end

function done(summary, latency)
    local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
    print(string.format("RESULT %d %d %d %d %d", summary.requests, summary.duration,
        latency:percentile(50), latency:percentile(99), bad))
end
