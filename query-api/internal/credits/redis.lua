-- Operations on the balances of one organization in one period. See redis.go.
-- KEYS[1]: prefix of all keys. ARGV: operation, period, organization, and more.
local prefix, op, period, organization = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local kept = 62 * 24 * 3600

-- A server that was restarted has another run id, and one that was made the primary, even
-- again, has another replication id. What it has then is an old state, and counts as
-- nothing. The version before goes by the run id alone: what it has loaded has no origin.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local here = run .. ':' .. string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
if op == 'origin' then return {'ok', here} end

local loaded, from = prefix .. period .. ':' .. run, prefix .. period .. ':origin'
local load, origin = redis.call('GET', loaded), redis.call('GET', from)
if load and not origin then
  origin = here
  redis.call('SET', from, origin, 'EX', kept)
end

if op == 'load' then
  if ARGV[5] ~= here then return {'moved'} end
  if load and origin == here then return {'there'} end
  redis.call('SET', loaded, ARGV[4], 'EX', kept)
  redis.call('SET', from, here, 'EX', kept)
  return {'ok'}
end

if not load or origin ~= here then return {'unloaded'} end
local base = prefix .. period .. ':' .. load .. ':' .. organization
local claims, leases, back = base .. ':claims', base .. ':leases', base .. ':back'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- A claim is {committed, requests, credits, key, endpoint, calls}; older ones have no calls.
local function use(c, sign)
  local line = 'l\t' .. c[5] .. '\t' .. c[4] .. '\t'
  redis.call('HINCRBY', base, 'r', sign * c[2] + 0)
  redis.call('HINCRBY', base, 'c', sign * c[3] + 0)
  redis.call('HINCRBY', base, line .. 'n', sign * (c[6] or 1) + 0)
  redis.call('HINCRBY', base, line .. 'r', sign * c[2] + 0)
  redis.call('HINCRBY', base, line .. 'c', sign * c[3] + 0)
end

local function hold(c, sign)
  redis.call('HINCRBY', base, 'hr', sign * c[2] + 0)
  redis.call('HINCRBY', base, 'hc', sign * c[3] + 0)
end

local function forget(id)
  redis.call('HDEL', claims, id)
  redis.call('ZREM', leases, id)
end

local function free(c)
  if c[1] == 1 then use(c, -1) else hold(c, -1) end
end

local function drop(id)
  local value = redis.call('HGET', claims, id)
  if value then
    value = cjson.decode(value)
    free(value)
  end
  forget(id)
  redis.call('HDEL', back, id)
  return value
end

-- Commits that are taken back stay known, since they may be settled yet.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 100)) do
  local c = drop(id)
  if c and c[1] == 1 then
    redis.call('HSET', back, id, cjson.encode(c))
    redis.call('EXPIRE', back, kept)
  end
end

-- restore uses what was taken back again.
local function restore(id)
  local value = redis.call('HGET', back, id)
  if value then
    redis.call('HDEL', back, id)
    use(cjson.decode(value), 1)
  end
  return value
end

local function balance(state)
  local b = redis.call('HMGET', base, 'r', 'c', 'hr', 'hc')
  return {state, tonumber(b[1] or 0), tonumber(b[2] or 0), tonumber(b[3] or 0), tonumber(b[4] or 0)}
end

if op == 'reserve' then
  local id, c = ARGV[4], {0, tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[10], ARGV[11], tonumber(ARGV[12])}
  local b = balance('ok')
  local there = redis.call('HGET', claims, id)
  if there then
    if cjson.decode(there)[1] == 0 then redis.call('ZADD', leases, now + tonumber(ARGV[9]), id) end
    return b
  end
  if c[2] > 0 and b[2] + b[4] + c[2] > tonumber(ARGV[7]) then
    b[1] = 'requests'
    return b
  end
  if c[3] > 0 and b[3] + b[5] + c[3] > tonumber(ARGV[8]) then
    b[1] = 'credits'
    return b
  end
  hold(c, 1)
  redis.call('HSET', claims, id, cjson.encode(c))
  redis.call('ZADD', leases, now + tonumber(ARGV[9]), id)
  redis.call('EXPIRE', base, kept)
  redis.call('EXPIRE', claims, kept)
  redis.call('EXPIRE', leases, kept)
  return balance('ok')
end

if op == 'commit' then
  local id = ARGV[4]
  local value = redis.call('HGET', claims, id) or restore(id)
  if not value then return {'lost'} end
  local c = cjson.decode(value)
  free(c)
  c[1], c[2], c[3] = 1, math.min(c[2], tonumber(ARGV[5])), math.min(c[3], tonumber(ARGV[6]))
  use(c, 1)
  redis.call('HSET', claims, id, cjson.encode(c))
  redis.call('ZADD', leases, now + tonumber(ARGV[7]), id)
  return balance('ok')
end

if op == 'settle' then
  local late = redis.call('HLEN', back) > 0
  for i = 4, #ARGV do
    forget(ARGV[i])
    if late then restore(ARGV[i]) end
  end
  return {'ok'}
end

if op == 'release' then
  for i = 4, #ARGV do drop(ARGV[i]) end
  return {'ok'}
end

if op == 'release_reservations' then
  for i = 4, #ARGV do
    local value = redis.call('HGET', claims, ARGV[i])
    if value and cjson.decode(value)[1] == 0 then drop(ARGV[i]) end
  end
  return {'ok'}
end

if op == 'usage' then
  local fields = redis.call('HGETALL', base)
  table.insert(fields, 1, 'ok')
  return fields
end

return redis.error_reply('unknown operation')
