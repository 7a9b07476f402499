-- One request of a key by the generic cell rate algorithm. See redis.go.
-- KEYS[1]: when the key's requests so far are worked off, in nanoseconds since 1970.
-- ARGV: nanoseconds between requests, nanoseconds that may be used ahead.
-- Returns: allowed, nanoseconds until all are worked off, nanoseconds to wait.
local each, ahead = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000000 + clock[2] * 1000
local free = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))
local wait = free + each - ahead - now
if wait > 0 then
  return {0, free - now, wait}
end
free = free + each
redis.call('SET', KEYS[1], string.format('%.0f', free), 'PX', math.ceil((free - now) / 1000000))
return {1, free - now, 0}
