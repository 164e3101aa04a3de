-- refresh: every robots.txt of a host is asked for again before its next page.
--
-- KEYS  1 ready
-- ARGV  1 prefix  2 key
-- Reply number of origins
--
-- Atomic; may be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule

local ready, prefix, key = KEYS[1], ARGV[1], ARGV[2]
local now = now_us()
local ready_before = head_us(ready)
local origins = prefix .. 'origins:' .. key
local count = 0
for _, origin in ipairs(redis.call('HKEYS', origins)) do
  local state, rest = string.match(redis.call('HGET', origins, origin), '^(%a+) %d+ (.*)$')
  if state ~= 'asked' then
    redis.call('HSET', origins, origin, state .. ' 0 ' .. rest)
    count = count + 1
  end
end
local host = host_load(prefix, key)
if host.is_new then
  return 0
end
host.hold_us = 0
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
return count
