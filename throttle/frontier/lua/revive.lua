-- revive: URLs that ended `dead` or `refused` wait again, their tries forgotten.
--
-- KEYS  1 ready  2 refill  3 totals
-- ARGV  1 prefix  2 key  3 most URLs  4 list: dead | refused
-- Reply number of URLs
--
-- Each goes from the list into its lane, in one step. Where an address was refused, robots.txt is
-- asked for again first: the setting may have been mended. Atomic; may be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes

local ready, refill, totals, prefix, key = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local list = ARGV[4]
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local host = host_load(prefix, key)
local ended = redis.call('LPOP', prefix .. list .. ':' .. key, tonumber(ARGV[3])) or {}
if #ended == 0 then
  return 0
end
for _, line in ipairs(ended) do
  local rest = string.match(line, '^[^\n]*\n%d+ (.*)$')
  lane_push(host, '0 ' .. rest, false)
end
redis.call('HINCRBY', totals, list, 0 - #ended)
redis.call('HINCRBY', totals, 'waiting', #ended)
redis.call('HINCRBY', host.record, 'ended:' .. list, 0 - #ended)
if list == 'refused' then
  local origins = prefix .. 'origins:' .. key
  local records = redis.call('HGETALL', origins)
  for i = 1, #records, 2 do
    local rest = string.match(records[i + 1], '^ok %d+ (%d+ %d+ undialled%-.*)$')
    if rest then
      redis.call('HSET', origins, records[i], 'ok 0 ' .. rest)
    end
  end
end
if host.tokens < 1 then
  redis.call('ZADD', refill, 'NX', now, key)
end
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return #ended
