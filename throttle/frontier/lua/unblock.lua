-- unblock: takes away a host's block, back-off and breaker; a refusal of us stays.
--
-- KEYS  1 ready
-- ARGV  1 prefix  2 key
-- Reply 1, or 0 for an unknown host
--
-- For a person who knows better than the clocks. Atomic; may be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule

local ready, prefix, key = KEYS[1], ARGV[1], ARGV[2]
local now = now_us()
local ready_before = head_us(ready)
local pace = redis.call('HGET', prefix .. 'host:' .. key, 'pace')
redis.call('HDEL', prefix .. 'host:' .. key, 'pace', 'opened', 'blocked_by')
local host = host_load(prefix, key)
if host.is_new then
  return 0
end
if pace and cjson.decode(pace).answered then
  -- That it once answered well is no pause: without it the next lone 403 would stop the host.
  redis.call('HSET', host.record, 'pace', '{"answered":true}')
end
host.block_us, host.breaker_us = 0, 0
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
return 1
