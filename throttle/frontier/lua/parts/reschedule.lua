-- Puts the host into `ready`, scored by when it may go next, or takes it out where an event must
-- come first (a URL, a token, a free slot, a resume). Needs clock.lua and host.lua; saves the host.
local function work_us(host)
  if host.chase > 0 then
    return 0
  end
  local soonest = nil
  if host.waiting > 0 then
    soonest = host.hold_us
  end
  if host.delayed > 0 then
    local first = redis.call('ZRANGE', host.prefix .. 'delayed:' .. host.key, 0, 0, 'WITHSCORES')
    local due = tonumber(first[2])
    if due and (not soonest or due < soonest) then
      soonest = due
    end
  end
  return soonest
end

local function reschedule(ready, host, now)
  local when = nil
  if not host.stopped and host.in_flight < host.concurrency and host.tokens >= 1 then
    when = work_us(host)
  end
  if when then
    when = math.max(when, host.block_us, host.breaker_us, clock_opens_us(host, host.unsent, now))
    redis.call('ZADD', ready, when, host.key)
  else
    redis.call('ZREM', ready, host.key)
  end
  host_save(host)
end
