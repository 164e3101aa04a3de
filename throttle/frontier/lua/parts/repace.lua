-- After a change of interval or burst: moves the clock, and puts the bucket up for refill where its
-- queue may need other arguments. `before` and `host` are the host under the old and new policy.
-- Needs host.lua.
local function repace(refill, before, host, now)
  if host.tat_us > 0 then
    local longer_us = host.interval_us - before.interval_us
    if before.is_new then
      -- A clock kept from before a removal: under which interval it ran is not known.
      longer_us = math.max(0, longer_us)
    end
    if longer_us > 0 then
      -- What is spent of a burst stays spent: each request still counted becomes one of the new.
      local counted = math.ceil((host.tat_us - now) / before.interval_us)
      longer_us = longer_us * math.max(1, math.min(before.burst, counted))
    end
    host.tat_us = host.tat_us + longer_us
  end
  if host.burst ~= before.burst or host.interval_us ~= before.interval_us then
    host.tokens = 0
  end
  local work = host.waiting + host.delayed + host.chase + host.in_flight
  if host.tokens < host.burst and work > 0 then
    redis.call('ZADD', refill, 'LT', now, host.key)
  end
end
