-- close: ends a case, keeping who closed it and why; may let the host go again.
--
-- KEYS  1 ready  2 cases  3 closed cases
-- ARGV  1 prefix  2 key  3 kind  4 text of the closed case  5 '1': the host may go again
-- Reply 1, or 0 where there is no such open case, nor a stopped host to let go
--
-- A host whose case was closed without letting it go is let go by closing the case again. It
-- starts with a clean pace. A host that was removed is just forgotten. Atomic; may be repeated: then it answers 0.
--@include clock
--@include wake
--@include host
--@include reschedule

local ready, cases, prefix, key, kind = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local record = prefix .. 'host:' .. key
local lets_go = ARGV[5] == '1' and redis.call('HGET', record, 'refused') == '1'
local was_open = redis.call('HDEL', cases, kind .. ' ' .. key) == 1
if not (was_open or lets_go) then
  return 0
end
redis.call('RPUSH', KEYS[3], ARGV[4])
if lets_go then
  local now = now_us()
  local ready_before = head_us(ready)
  redis.call('HDEL', record, 'refused', 'pace', 'opened', 'blocked_by')
  local host = host_load(prefix, key)
  if not host.is_new then
    host.block_us, host.breaker_us = 0, 0
    reschedule(ready, host, now)
    wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
  end
end
return 1
