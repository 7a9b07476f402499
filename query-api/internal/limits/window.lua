-- One request of a key among those of the last minute. See window.go.
-- KEYS[1]: the times of the key's last requests, the newest first, in microseconds since 1970.
-- ARGV: how many are allowed, microseconds of a minute.
-- Returns: allowed, how many there are now, microseconds until there is none, microseconds to wait.
local most, minute = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local times = redis.call('LRANGE', KEYS[1], 0, most - 1)
local n = 0
for _, at in ipairs(times) do
  if now - tonumber(at) < minute then
    n = n + 1
  end
end
if n >= most then
  return {0, n, tonumber(times[1]) + minute - now, tonumber(times[n]) + minute - now}
end
redis.call('LPUSH', KEYS[1], string.format('%.0f', now))
redis.call('LTRIM', KEYS[1], 0, most - 1)
redis.call('PEXPIRE', KEYS[1], math.ceil(minute / 1000))
return {1, n + 1, minute, 0}
