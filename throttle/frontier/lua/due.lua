-- due: the buckets whose next token is due. Nothing is changed: `issued` marks what was published.
--
-- KEYS  1 refill  2 lease
-- ARGV  1 prefix  2 holder  3 epoch  4 most buckets
-- Reply {'fenced'} | {'ok', next due (us, -1: none, 0: more are due now), now (us), rows}, the
--       rows flat, per bucket: key, burst, interval (us), queue shape
--
-- Reading only; may be repeated: a token published twice is dropped by the queue's bound.
--@include clock
--@include fence
--@include wake
--@include host

local refill, prefix, most = KEYS[1], ARGV[1], tonumber(ARGV[4])
if not owns(KEYS[2], ARGV[2], ARGV[3]) then
  return {'fenced'}
end
local now = now_us()
local rows = {}
local keys = redis.call('ZRANGE', refill, '-inf', now, 'BYSCORE', 'LIMIT', 0, most)
for _, key in ipairs(keys) do
  local host = host_load(prefix, key)
  local n = #rows
  rows[n + 1], rows[n + 2], rows[n + 3] = key, host.burst, host.interval_us
  rows[n + 4] = redis.call('HGET', host.record, 'queue_shape') or ''
end
local next_due = -1
if #keys >= most then
  next_due = 0
else
  local after = redis.call('ZRANGE', refill, '(' .. whole(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1,
                           'WITHSCORES')
  next_due = tonumber(after[2]) or -1
end
return {'ok', next_due, now, rows}
