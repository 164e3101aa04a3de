-- claim: takes the hosts that may go now, one URL each, and writes a grant for each.
--
-- KEYS  1 ready  2 refill  3 grants  4 totals  5 lease
-- ARGV  1 prefix  2 holder  3 epoch  4 nonce (ids of the grants begin with it)
--       5 most hosts to take  6 how long a grant lives unstarted (us)
-- Reply {'fenced'} | {'ok', next ready (us, -1: none), next expiry (us, -1: none), open grants,
--       now (us), rows}, the rows flat, per grant: id, key, kind, entry
--
-- Atomic: the URL moves from its list into the grant, so a crash loses nothing. Not to be
-- repeated blindly: grants of a lost reply are given back by `recover`, or by their expiry.
--@include clock
--@include fence
--@include wake
--@include host
--@include reschedule
--@include lanes

local ready, refill, grants, totals = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, holder, epoch, nonce = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local most, ttl_us = tonumber(ARGV[5]), tonumber(ARGV[6])
if not owns(KEYS[5], holder, epoch) then
  return {'fenced'}
end
local now = now_us()
local refill_before = head_us(refill)
local rows, pages = {}, 0

local function promote_delayed(host)
  if host.delayed < 1 then
    return
  end
  local delayed = prefix .. 'delayed:' .. host.key
  local due = redis.call('ZRANGE', delayed, '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
  for i = #due, 1, -1 do
    lane_push(host, due[i], true)
    redis.call('ZREM', delayed, due[i])
  end
  host.delayed = host.delayed - #due
  redis.call('HINCRBY', totals, 'delayed', 0 - #due)
  redis.call('HINCRBY', totals, 'waiting', #due)
end

-- The lanes in turn: a page of an origin whose robots.txt is in force, or first that robots.txt.
local function take_own(host)
  local lanes, origins = prefix .. 'lanes:' .. host.key, prefix .. 'origins:' .. host.key
  local soonest = math.huge
  for _ = 1, redis.call('LLEN', lanes) do
    local origin = redis.call('LPOP', lanes)
    local record = redis.call('HGET', origins, origin) or 'unknown 0 0 0 0'
    local state, until_text, rest = string.match(record, '^(%a+) (%d+) (.*)$')
    local until_us = tonumber(until_text)
    if state == 'ok' and until_us > now then
      local list = prefix .. 'urls:' .. origin
      local entry = redis.call('LPOP', list)
      if redis.call('EXISTS', list) == 1 then
        redis.call('RPUSH', lanes, origin)
      end
      host.waiting = host.waiting - 1
      return 'page', entry
    end
    redis.call('RPUSH', lanes, origin)
    if until_us > now then
      soonest = math.min(soonest, until_us)
    else
      redis.call('HSET', origins, origin, 'asked ' .. whole(now + ttl_us) .. ' ' .. rest)
      return 'robots', '0 0 0 ' .. origin .. '/robots.txt ' .. origin
    end
  end
  host.hold_us = soonest
  return nil
end

-- What other origins were redirected here for takes turns with what the host has of its own:
-- neither starves the other.
local function take(host)
  if host.chase == 0 or host.chased == 1 then
    local kind, entry = take_own(host)
    if kind or host.chase == 0 then
      host.chased = 0
      return kind, entry, false
    end
  end
  host.chase, host.chased = host.chase - 1, 1
  return 'robots', redis.call('LPOP', prefix .. 'chase:' .. host.key), true
end

local keys = redis.call('ZRANGE', ready, '-inf', now, 'BYSCORE', 'LIMIT', 0, most)
-- Every host is read before the first write: one without a policy fails the call as a whole.
local going = {}
for i, key in ipairs(keys) do
  going[i] = host_load(prefix, key)
end
for i, key in ipairs(keys) do
  local host = going[i]
  promote_delayed(host)
  local may_go = not host.stopped and host.tokens >= 1 and host.in_flight < host.concurrency
  local kind, entry, chase
  if may_go and host.waiting + host.chase > 0 then
    kind, entry, chase = take(host)
  end
  if kind then
    local id = nonce .. '-' .. #rows / 4
    host.hold_us = 0
    host.tokens = host.tokens - 1
    host.in_flight = host.in_flight + 1
    host.unsent = host.unsent + 1
    redis.call('ZADD', refill, 'NX', now + host.interval_us, key)
    redis.call('HSET', prefix .. 'grant:' .. id, 'key', key, 'kind', kind, 'entry', entry,
               'state', 'claimed', 'epoch', epoch, 'chase', chase and '1' or '0')
    redis.call('ZADD', grants, now + ttl_us, id)
    if kind == 'page' then
      pages = pages + 1
    end
    local n = #rows
    rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = id, key, kind, entry
  end
  reschedule(ready, host, now)
end
if pages > 0 then
  redis.call('HINCRBY', totals, 'waiting', -pages)
  redis.call('HINCRBY', totals, 'in_flight', pages)
end
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')

local next_ready, next_expiry = head_us(ready), head_us(grants)
return {'ok', next_ready < math.huge and next_ready or -1,
        next_expiry < math.huge and next_expiry or -1, redis.call('ZCARD', grants), now, rows}
