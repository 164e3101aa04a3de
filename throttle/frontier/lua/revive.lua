-- revive: URLs that ended `dead` wait again, their tries forgotten.
--
-- KEYS  1 ready  2 refill  3 totals
-- ARGV  1 prefix  2 key  3 most URLs
-- Reply number of URLs
--
-- Each goes from the list of the dead into its lane, in one step. Atomic; may be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes

local ready, refill, totals, prefix, key = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local host = host_load(prefix, key)
local dead = redis.call('LPOP', prefix .. 'dead:' .. key, tonumber(ARGV[3])) or {}
if #dead == 0 then
  return 0
end
for _, line in ipairs(dead) do
  local rest = string.match(line, '^[^\n]*\n%d+ (.*)$')
  lane_push(host, '0 ' .. rest, false)
end
redis.call('HINCRBY', totals, 'dead', 0 - #dead)
redis.call('HINCRBY', totals, 'waiting', #dead)
redis.call('HINCRBY', host.record, 'ended:dead', 0 - #dead)
if host.tokens < 1 then
  redis.call('ZADD', refill, 'NX', now, key)
end
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return #dead
