-- What wrk sends: prepared beforehand, so that it takes little of the cores that it shares with the service.
-- Arguments: the operation (list, list100, get, create, mixed, or a path), the file of keys, and the number of pets.

local prepared, sent = {}, 0

local function one(operation, key, pets)
    local headers = { ["Authorization"] = "Bearer " .. key }
    if operation:sub(1, 1) == "/" then return wrk.format("GET", operation, headers) end
    if operation == "list" then return wrk.format("GET", "/v1/pets?limit=20&status=available", headers) end
    if operation == "list100" then return wrk.format("GET", "/v1/pets?limit=100&status=available", headers) end
    if operation == "get" then return wrk.format("GET", "/v1/pets/" .. math.random(pets), headers) end
    headers["Content-Type"] = "application/json"
    local body = string.format('{"name": "Pet %d", "categoryId": %d}', math.random(1e6), math.random(50))
    return wrk.format("POST", "/v1/pets", headers, body)
end

function init(arguments)
    local operation, keys, pets = arguments[1], {}, tonumber(arguments[3])
    for line in io.lines(arguments[2]) do keys[#keys + 1] = line end
    math.randomseed(os.time())
    for index = 1, 10000 do
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
