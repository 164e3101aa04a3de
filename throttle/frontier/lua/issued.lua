-- issued: tokens were published; the buckets are marked and their hosts scheduled.
--
-- KEYS  1 ready  2 refill  3 lease
-- ARGV  1 prefix  2 holder  3 epoch  then per token: key, queue shape
-- Reply number of buckets marked, or -1 when fenced
--
-- A bucket that is not full stays in `refill`, one interval after this token was due; a full one
-- leaves it and costs nothing. Atomic. Repeated, a bucket with a burst is believed fuller than it
-- is: the pull finds out, and the start gate holds the pace anyway.
--@include clock
--@include fence
--@include wake
--@include host
--@include reschedule

local ready, refill, prefix = KEYS[1], KEYS[2], ARGV[1]
if not owns(KEYS[3], ARGV[2], ARGV[3]) then
  return -1
end
local now = now_us()
local ready_before = head_us(ready)
local marked = 0
for i = 4, #ARGV, 2 do
  local key = ARGV[i]
  local due = tonumber(redis.call('ZSCORE', refill, key))
  if due then
    local host = host_load(prefix, key)
    host.tokens = math.min(host.burst, host.tokens + 1)
    if host.tokens < host.burst then
      redis.call('ZADD', refill, math.max(due, now - host.interval_us) + host.interval_us, key)
    else
      redis.call('ZREM', refill, key)
    end
    redis.call('HSET', host.record, 'queue_shape', ARGV[i + 1])
    redis.call('HDEL', host.record, 'issue_fault')
    reschedule(ready, host, now)
    marked = marked + 1
  end
end
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
return marked
