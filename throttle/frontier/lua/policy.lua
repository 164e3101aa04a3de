-- policy: sets what is in force for a host; it holds from the moment this returns.
--
-- KEYS  1 ready  2 refill  3 hosts
-- ARGV  1 prefix  2 key  then field, value pairs ('' removes the field)
-- Reply 1
--
-- A changed burst or interval may need a queue with other arguments: the bucket is believed empty
-- and put up for refill, where the issuer compares the queue's shape. A longer interval moves
-- the clock out as if the last requests had been made under it. Atomic; may be repeated.
--@include clock
--@include wake
--@include host
--@include reschedule

local ready, refill, hosts, prefix, key = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local before = host_load(prefix, key)
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', before.record, ARGV[i])
  else
    redis.call('HSET', before.record, ARGV[i], ARGV[i + 1])
  end
end
redis.call('SADD', hosts, key)
local host = host_load(prefix, key)
if host.tat_us > 0 then
  local longer_us = host.interval_us - before.interval_us
  if before.is_new then
    -- A clock kept from before a removal: under which interval it ran is not known.
    longer_us = math.max(0, longer_us)
  end
  if longer_us > 0 then
    -- What is spent of a burst stays spent: each request still counted becomes one of the new ones.
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
  redis.call('ZADD', refill, 'LT', now, key)
end
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return 1
