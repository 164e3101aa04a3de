-- chase: a robots.txt redirected here; its target waits for this host's own token.
--
-- KEYS  1 ready  2 refill  3 hosts
-- ARGV  1 prefix  2 key of the target's host  3 entry (`tries depth hops url origin`)
-- Reply 1, or 0 where too many wait here: the origin is asked anew when its time is up
--
-- Atomic: pushed and scheduled together. One waits per origin, so it may be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes

local ready, refill, hosts, prefix, key = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local host = host_load(prefix, key)
if not chase_push(host, ARGV[3], false) then
  return 0
end
redis.call('SADD', hosts, key)
if host.tokens < 1 then
  redis.call('ZADD', refill, 'NX', now, key)
end
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return 1
