-- expire: closes the grants whose time is up; their URLs go back, or end `dead` after max tries.
--
-- KEYS  1 ready  2 refill  3 grants  4 totals  5 lease
-- ARGV  1 prefix  2 holder  3 epoch  4 max tries  5 most grants
-- Reply {'fenced'} | {'ok', grants closed, next expiry (us, -1: none), now (us)}
--
-- Atomic; may be repeated.
--@include clock
--@include fence
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include grants

local ready, grants, totals = KEYS[1], KEYS[3], KEYS[4]
local prefix, holder, epoch = ARGV[1], ARGV[2], ARGV[3]
local max_tries, most = tonumber(ARGV[4]), tonumber(ARGV[5])
if not owns(KEYS[5], holder, epoch) then
  return {'fenced'}
end
local now = now_us()
local ready_before = head_us(ready)
local closed = 0
for _, id in ipairs(redis.call('ZRANGE', grants, '-inf', now, 'BYSCORE', 'LIMIT', 0, most)) do
  local grant = grant_load(prefix, id)
  if not grant then
    redis.call('ZREM', grants, id)
  else
    local host = host_load(prefix, grant.key)
    if grant.state == 'started' then
      grant_lost(grants, totals, host, grant, now, max_tries)
    else
      grant_close(grants, totals, host, grant)
      grant_give_back(totals, host, grant, grant.entry)
    end
    reschedule(ready, host, now)
    closed = closed + 1
  end
end
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
local next_expiry = head_us(grants)
return {'ok', closed, next_expiry < math.huge and next_expiry or -1, now}
