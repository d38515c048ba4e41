-- Deletes a cached key record.

redis.call('DEL', KEYS[1])
return {public_id()}
