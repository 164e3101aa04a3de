-- release: gives back grants that were not forwarded; their URLs return to the head of their lane.
--
-- KEYS  1 ready  2 refill  3 grants  4 totals
-- ARGV  1 prefix  then per grant: id, 'token' (its token was spent) | 'empty' (there was none:
--       the belief in tokens was wrong, and the bucket is put up for refill, at once the
--       first time, then after growing pauses up to its interval)
-- Reply number of grants released (one that was started or is gone is left alone)
--
-- Atomic: a URL is either in its grant or in its list. May be repeated. Needs no fence: it only
-- gives back what the caller claimed itself, and a grant that is gone stays gone.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include grants

local ready, refill, grants, totals = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix = ARGV[1]
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local released = 0
for i = 2, #ARGV, 2 do
  local grant = grant_load(prefix, ARGV[i])
  if grant and grant.state == 'claimed' then
    local host = host_load(prefix, grant.key)
    grant_close(grants, totals, host, grant)
    grant_give_back(totals, host, grant, grant.entry)
    if ARGV[i + 1] == 'empty' then
      host.tokens = 0
      host.empties = host.empties + 1
      -- The first time RabbitMQ has just lost it; time after time, something else takes the tokens.
      local doubled = 100000 * 2 ^ math.min(host.empties - 2, 20)
      local pause = host.empties > 1 and math.min(host.interval_us, doubled) or 0
      redis.call('ZADD', refill, now + pause, grant.key)
    end
    reschedule(ready, host, now)
    released = released + 1
  end
end
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return released
