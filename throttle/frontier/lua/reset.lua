-- reset: one host begins a new generation: its URLs, seen set and counters are gone.
--
-- KEYS  1 ready  2 refill  3 totals
-- ARGV  1 prefix  2 key  3 '1' if the operator's policy is kept
-- Reply {'reset', URLs dropped} | {'busy', grants open: nothing was changed}
--
-- Kept are its clock, blocks, breaker, pace, a refusal of us, a pause, its robots.txt, the tokens
-- believed in its queue and its cases. A host without a policy of its own is not known any more:
-- links to it are `outside` until it is added again. Atomic; may be repeated.
--@include clock
--@include host
--@include reschedule
--@include repace
--@include seen

local ready, refill, totals, prefix, key = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local now = now_us()
local before = host_load(prefix, key)
if before.in_flight > 0 then
  return {'busy', before.in_flight}
end
for _, origin in ipairs(redis.call('LRANGE', prefix .. 'lanes:' .. key, 0, -1)) do
  redis.call('UNLINK', prefix .. 'urls:' .. origin)
end
for _, name in ipairs({'lanes', 'delayed', 'chase', 'refused', 'dead'}) do
  redis.call('UNLINK', prefix .. name .. ':' .. key)
end
seen_drop(prefix, key, before.accepted)
redis.call('HDEL', before.record, 'ended:done', 'ended:refused', 'ended:dead', 'full')
if ARGV[3] ~= '1' then
  redis.call('HDEL', before.record, 'operator_us', 'burst', 'concurrency')
end
local policy = redis.call('HMGET', before.record, 'operator_us', 'burst', 'concurrency')
if not (policy[1] or policy[2] or policy[3]) then
  redis.call('HDEL', before.record, 'known')
end

local host = host_load(prefix, key)
host.waiting, host.delayed, host.chase, host.hold_us, host.accepted = 0, 0, 0, 0, 0
repace(refill, before, host, now)
reschedule(ready, host, now)
redis.call('HINCRBY', totals, 'accepted', 0 - before.waiting - before.delayed)
redis.call('HINCRBY', totals, 'waiting', 0 - before.waiting)
redis.call('HINCRBY', totals, 'delayed', 0 - before.delayed)
return {'reset', before.waiting + before.delayed}
