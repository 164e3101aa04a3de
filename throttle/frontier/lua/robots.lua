-- robots: stores what is in force of one origin's robots.txt, and lets its lane go on.
--
-- KEYS  1 ready  2 totals
-- ARGV  1 prefix  2 key of the origin's host  3 origin
--       4 state: ok | unreachable | asked (a redirect is followed)  5 in force for (us from now)
--       6 failures in a row  7 crawl delay asked (us, 0 none)  8 version  9 body ('' keeps none)
-- Reply 1
--
-- Atomic: rules and their validity change together. May be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule

local ready, totals = KEYS[1], KEYS[2]
local prefix, key, origin, state = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now = now_us()
local ready_before = head_us(ready)
local until_us = now + tonumber(ARGV[5])
redis.call('HSET', prefix .. 'origins:' .. key, origin,
           table.concat({state, whole(until_us), ARGV[6], ARGV[7], ARGV[8]}, ' '))
if state == 'ok' then
  redis.call('HSET', prefix .. 'robots:' .. key, origin, ARGV[9])
end
if state ~= 'asked' then
  redis.call('HINCRBY', totals, 'robots:' .. state, 1)
end
local host = host_load(prefix, key)
host.hold_us = 0
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
return 1
