-- finish: closes a started grant with what became of its URL and of its host's clock.
--
-- KEYS  1 ready  2 refill  3 grants  4 totals
-- ARGV  1 prefix  2 grant id  3 request id  4 wire time (us, at the latest; '' nothing was sent)
--       5 end: done | refused | dead | again | back (not counted as a try)  6 outcome's name  7 reason (one line)
--       8 delay of the URL (us, with again and back)   9 block of the host (us from now, 0 none)
-- Reply 'finished' | 'stale' (the grant is over, or belongs to another request: nothing changed)
--
-- Atomic: slot, clock and URL change together. May be repeated: the second time is stale.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include grants

local ready, refill, grants, totals = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, wire, ending, name, reason = ARGV[1], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local delay_us, block_us = tonumber(ARGV[8]), tonumber(ARGV[9])
local grant = grant_load(prefix, ARGV[2])
if not grant or grant.state ~= 'started' or grant.request ~= ARGV[3] then
  return 'stale'
end
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local host = host_load(prefix, grant.key)

if not grant.sent then
  if wire ~= '' then
    clock_advance(host, tonumber(wire))
  elseif host.tokens < host.burst then
    -- Nothing reached the host: the token it cost is issued again at once.
    redis.call('ZADD', refill, now, grant.key)
  end
end
grant_close(grants, totals, host, grant)
if block_us > 0 then
  host.block_us = math.max(host.block_us, now + block_us)
end
if grant.kind == 'page' then
  if ending == 'again' or ending == 'back' then
    local entry = ending == 'again' and once_more(grant.entry) or grant.entry
    if delay_us > 0 then
      redis.call('ZADD', prefix .. 'delayed:' .. grant.key, now + delay_us, entry)
      host.delayed = host.delayed + 1
      redis.call('HINCRBY', totals, 'delayed', 1)
    else
      lane_push(host, entry, true)
      redis.call('HINCRBY', totals, 'waiting', 1)
    end
  else
    redis.call('HINCRBY', totals, ending, 1)
    redis.call('HINCRBY', host.record, ending, 1)
    if ending ~= 'done' then
      redis.call('RPUSH', prefix .. ending .. ':' .. grant.key, reason .. '\n' .. grant.entry)
    end
  end
  redis.call('HINCRBY', totals, 'out:' .. name, 1)
end
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return 'finished'
