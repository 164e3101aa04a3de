-- robots: stores what is in force of one origin's robots.txt, and lets its lane go on.
--
-- KEYS  1 ready  2 refill  3 totals  4 hosts
-- ARGV  1 prefix  2 key of the origin's host  3 origin
--       4 state: ok | unreachable | asked (a redirect is followed)  5 in force for (us from now)
--       6 failures in a row  7 crawl delay asked (us, 0 none)  8 version  9 body ('' keeps none)
--       10 cap of a crawl delay (us)  11 text of the case to open for one above it ('' none)
--       12 why it cannot be had, for people ('' nothing to say)
-- Reply 1, or 0 where the host was removed meanwhile: nothing is kept
--
-- Atomic: rules, their validity and the pace they ask for change together. A host's crawl delay is
-- the longest of its origins'; one that is gone uncovers the layer beneath, and so does one that is
-- out of date at an origin without URLs. May be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include repace
--@include cases

local ready, refill, totals = KEYS[1], KEYS[2], KEYS[3]
local prefix, key, origin, state = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if redis.call('SISMEMBER', KEYS[4], key) == 0 then
  return 0
end
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local before = host_load(prefix, key)
local origins = prefix .. 'origins:' .. key
redis.call('HSET', origins, origin,
           table.concat({state, whole(now + tonumber(ARGV[5])), ARGV[6], ARGV[7], ARGV[8]}, ' '))
if state == 'ok' then
  redis.call('HSET', prefix .. 'robots:' .. key, origin, ARGV[9])
end
if state ~= 'asked' then
  redis.call('HINCRBY', totals, 'robots:' .. state, 1)
end

if ARGV[12] ~= '' then
  redis.call('HSET', before.record, 'robots_fault', ARGV[12])
elseif state == 'ok' then
  redis.call('HDEL', before.record, 'robots_fault')
end

-- A URL that is delayed may be of any origin: while there is one, none counts as idle.
local function is_idle(other, until_us)
  return other ~= origin and tonumber(until_us) <= now and before.delayed == 0
         and redis.call('EXISTS', prefix .. 'urls:' .. other) == 0
end

local slowest, records = 0, redis.call('HGETALL', origins)
for i = 1, #records, 2 do
  local until_us, delay_us = string.match(records[i + 1], '^%a+ (%d+) %d+ (%d+)')
  if delay_us and tonumber(delay_us) > slowest and not is_idle(records[i], until_us) then
    slowest = tonumber(delay_us)
  end
end
slowest = math.min(slowest, tonumber(ARGV[10]))
if slowest > 0 then
  redis.call('HSET', before.record, 'robots_us', slowest)
else
  redis.call('HDEL', before.record, 'robots_us')
end
if ARGV[11] ~= '' then
  case_open(prefix, 'crawl_delay_capped', key, ARGV[11])
end

local host = host_load(prefix, key)
if host.interval_us ~= before.interval_us then
  repace(refill, before, host, now)
end
host.hold_us = 0
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return 1
