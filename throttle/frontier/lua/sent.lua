-- sent: the request of a started grant is on the wire; the host's clock runs from there.
--
-- KEYS  1 ready  2 grants
-- ARGV  1 prefix  2 grant id  3 request id  4 wire time (us, at the latest)
-- Reply 1 stored | 0 the grant is over, or it was said before
--
-- Only hosts with a concurrency above 1 need it: with 1, `finish` comes before the next start.
-- Atomic; may be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include grants

local ready, prefix = KEYS[1], ARGV[1]
local grant = grant_load(prefix, ARGV[2])
if not grant or grant.state ~= 'started' or grant.request ~= ARGV[3] or grant.sent then
  return 0
end
local now = now_us()
local ready_before = head_us(ready)
local host = host_load(prefix, grant.key)
redis.call('HSET', prefix .. 'grant:' .. grant.id, 'sent', '1')
host.unsent = host.unsent - 1
host.pending = host.pending - 1
clock_advance(host, tonumber(ARGV[4]))
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
return 1
