-- bury: a started grant's worker is dead for certain; its URL goes back at once.
--
-- KEYS  1 ready  2 grants  3 totals
-- ARGV  1 prefix  2 grant id  3 the dead worker  4 max tries
-- Reply 1, or 0 where the grant is over or another worker's
--
-- Only for who knows: a worker that was merely cut off may still have its request open at the
-- host. Atomic; may be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include grants

local ready, grants, totals, prefix = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local grant = grant_load(prefix, ARGV[2])
if not grant or grant.state ~= 'started' or grant.worker ~= ARGV[3] then
  return 0
end
local now = now_us()
local ready_before = head_us(ready)
local host = host_load(prefix, grant.key)
grant_lost(grants, totals, host, grant, now, tonumber(ARGV[4]))
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
return 1
