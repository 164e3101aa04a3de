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
--@include repace

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
repace(refill, before, host, now)
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return 1
