-- start: the start gate. A worker shows a grant; this is the one place where a fetch is allowed.
--
-- KEYS  1 ready  2 refill  3 grants  4 totals
-- ARGV  1 prefix  2 grant id  3 request id (one per execution of the message)
--       4 worker  5 '1' if RabbitMQ marked the message redelivered
--       6 how long a started grant lives (us)  7 key of the host that the message names
-- Reply {'go', now (us), entry, kind, concurrency, robots record of the origin ('' for robots),
--        pace ('' for none)}
--       {'early'}      the host's clock is not open, or it is stopped or blocked, or has its
--                      probe in flight: the URL went back
--       {'stale'}      the grant is over, or another host's: drop the message
--       {'duplicate'}  started before, by another message: drop it
--       {'held', worker}  started before and redelivered: that worker is dead, or lost its
--                      connection to RabbitMQ only; see `bury`
--
-- Atomic: clock test and reservation are one. May be repeated with the same request id: it
-- answers `go` again without a second reservation.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include grants

local ready, grants, totals = KEYS[1], KEYS[3], KEYS[4]
local prefix, id, request, worker = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local redelivered, ttl_us = ARGV[5] == '1', tonumber(ARGV[6])
local now = now_us()
local grant = grant_load(prefix, id)
if not grant or grant.key ~= ARGV[7] then
  return {'stale'}
end

local host = host_load(prefix, grant.key)

local function go()
  local record = ''
  if grant.kind == 'page' then
    record = redis.call('HGET', prefix .. 'origins:' .. grant.key, lane_of(grant.entry)) or ''
  end
  local pace = redis.call('HGET', host.record, 'pace') or ''
  return {'go', now, grant.entry, grant.kind, host.concurrency, record, pace}
end

if grant.state == 'started' then
  if grant.request == request then
    return go()
  elseif not redelivered then
    return {'duplicate'}
  end
  return {'held', grant.worker}
end

local opens = math.max(host.block_us, host.breaker_us, clock_opens_us(host, host.pending, now))
-- Grants claimed before the breaker opened may come late, all together: one of them is the probe.
local is_crowd = host.is_probed and host.in_flight > 1
if host.stopped or is_crowd or opens > now then
  local ready_before = head_us(ready)
  grant_close(grants, totals, host, grant)
  grant_give_back(totals, host, grant, grant.entry)
  reschedule(ready, host, now)
  redis.call('HINCRBY', totals, 'early', 1)
  wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
  return {'early'}
end

host.pending = host.pending + 1
host.empties = 0
host_save(host)
redis.call('HSET', prefix .. 'grant:' .. id, 'state', 'started', 'request', request,
           'worker', worker)
redis.call('ZADD', grants, now + ttl_us, id)
return go()
