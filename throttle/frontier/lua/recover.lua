-- recover: a new holder gives back what its predecessor claimed and no worker has started.
--
-- KEYS  1 ready  2 refill  3 grants  4 totals  5 lease
-- ARGV  1 prefix  2 holder  3 epoch  4 '1': those of this epoch, too (after a lost reply)
-- Reply number of grants given back, or -1 when fenced
--
-- Messages of these grants may lie in the crawl queue: the start gate drops them as stale. Their
-- tokens are spent. Atomic as `release`; may be repeated.
--@include clock
--@include fence
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include grants

local ready, grants, totals = KEYS[1], KEYS[3], KEYS[4]
local prefix, holder, epoch, own_too = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
if not owns(KEYS[5], holder, epoch) then
  return -1
end
local now = now_us()
local ready_before = head_us(ready)
local released = 0
for _, id in ipairs(redis.call('ZRANGE', grants, 0, -1)) do
  local grant = grant_load(prefix, id)
  if grant and grant.state == 'claimed' and (own_too or grant.epoch ~= epoch) then
    local host = host_load(prefix, grant.key)
    grant_close(grants, totals, host, grant)
    grant_give_back(totals, host, grant, grant.entry)
    reschedule(ready, host, now)
    released = released + 1
  end
end
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
return released
