-- close: ends a case, keeping who closed it and why; may let the host go again.
--
-- KEYS  1 ready  2 cases  3 closed cases
-- ARGV  1 prefix  2 key  3 kind  4 text of the closed case  5 '1': the host may go again
-- Reply 1, or 0 where there is no such open case
--
-- A host that goes again starts with a clean pace. Atomic; may be repeated: then it answers 0.
--@include clock
--@include wake
--@include host
--@include reschedule

local ready, cases, prefix, key = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if redis.call('HDEL', cases, ARGV[3] .. ' ' .. key) == 0 then
  return 0
end
redis.call('RPUSH', KEYS[3], ARGV[4])
if ARGV[5] == '1' then
  local now = now_us()
  local ready_before = head_us(ready)
  redis.call('HDEL', prefix .. 'host:' .. key, 'refused', 'pace', 'opened')
  local host = host_load(prefix, key)
  host.block_us, host.breaker_us = 0, 0
  reschedule(ready, host, now)
  wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
end
return 1
