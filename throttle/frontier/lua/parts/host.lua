-- The record of one host, `<prefix>host:<key>`:
--   operator_us burst concurrency   the operator's policy; absent: `<prefix>defaults`
--   robots_fault  why its robots.txt cannot be had; absent when it can
--   robots_us  the longest Crawl-delay its origins ask for, capped; it can only slow the above
--   paused refused   stopped by the operator; by a refusal of us, until a case is closed
--   pace opened      what `pace.py` remembers (JSON); openings of the breaker since it was closed:
--                    while there is one, a single probe is in flight
--   tat_us     theoretical arrival time: the host's clock, GCRA over wire times
--   tokens     tokens believed to lie in its RabbitMQ queue
--   in_flight  grants open: slots in use
--   unsent     of these, those whose request's wire time is not known yet
--   pending    of these, those that passed the start gate: each may reach the wire at any moment
--   waiting    URLs in its lanes      delayed  URLs in `delayed:<key>`
--   empties    pulls in a row that found no token though one was believed there
--   chase      robots.txt redirects waiting in `chase:<key>`
--   chased     1 if the last thing taken was one of them: something of its own goes next
--   accepted   URLs accepted in all: the size of its seen set
--   hold_us    no lane may be taken before (robots.txt asked for or unreachable)
--   block_us   nothing of the host may start before
--   blocked_by what that came from (`BlockedBy` in model.py)
--   breaker_us nor before: the breaker is open until then
local COUNTED = {'tat_us', 'tokens', 'in_flight', 'unsent', 'pending', 'waiting', 'delayed',
                 'chase', 'hold_us', 'block_us', 'breaker_us', 'accepted', 'empties',
                 'chased'}

local function host_load(prefix, key)
  local values = redis.call('HMGET', prefix .. 'host:' .. key, 'operator_us', 'burst',
                            'concurrency', 'robots_us', 'paused', 'refused', 'opened', 'known',
                            unpack(COUNTED))
  local policy = values
  if not (values[1] and values[2] and values[3]) then
    policy = redis.call('HMGET', prefix .. 'defaults', 'interval_us', 'burst', 'concurrency')
    if not policy[1] then
      error('no default policy: start beat, which writes it')
    end
  end
  local own_us, robots_us = tonumber(values[1] or policy[1]), tonumber(values[4] or 0)
  local most_at_once = tonumber(values[3] or policy[3])
  local host = {
    prefix = prefix, key = key, record = prefix .. 'host:' .. key,
    interval_us = math.max(own_us, robots_us),
    -- A crawl delay is meant as a gap: while it sets the pace there is no burst.
    burst = robots_us > own_us and 1 or tonumber(values[2] or policy[2]),
    concurrency = values[7] and 1 or most_at_once, most_at_once = most_at_once,
    is_probed = values[7] and true or false,
    stopped = values[5] == '1' or values[6] == '1',
    known = values[8] == '1', is_new = not values[9],
  }
  for i, field in ipairs(COUNTED) do
    host[field] = tonumber(values[i + 8]) or 0
  end
  if host.is_new then
    -- A host that was removed and comes back keeps its clocks.
    local clocks = redis.call('GET', prefix .. 'clock:' .. key) or '0 0 0'
    local tat, block, breaker = string.match(clocks, '^(%d+) (%d+) (%d+)$')
    host.tat_us, host.block_us = tonumber(tat), tonumber(block)
    host.breaker_us = tonumber(breaker)
  end
  return host
end

local function host_save(host)
  local pairs_ = {}
  for i, field in ipairs(COUNTED) do
    pairs_[2 * i - 1] = field
    pairs_[2 * i] = host[field]
  end
  redis.call('HSET', host.record, unpack(pairs_))
end

-- A block only grows; what made it longest is its cause.
local function block_extend(host, until_us, cause)
  if until_us > host.block_us then
    host.block_us = until_us
    redis.call('HSET', host.record, 'blocked_by', cause)
  end
end

-- When the clock lets one more request start, if `reserved` others may still reach the wire.
-- Burst 1 with one reserved gives a time after now: a strict gap needs the wire time first.
local function clock_opens_us(host, reserved, now)
  local arrival = host.tat_us
  if reserved > 0 then
    arrival = math.max(arrival, now) + reserved * host.interval_us
  end
  return arrival - (host.burst - 1) * host.interval_us
end

-- The request of one grant is known to have reached the wire at `wire_us`, at the latest.
local function clock_advance(host, wire_us)
  host.tat_us = math.max(host.tat_us, wire_us) + host.interval_us
end
