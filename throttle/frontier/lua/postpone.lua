-- postpone: the tokens of these buckets could not be published; they are due again later.
--
-- KEYS  1 refill  2 lease
-- ARGV  1 prefix  2 holder  3 epoch  4 delay (us)  5 reason (one line)  then keys
-- Reply 1, or -1 when fenced
--
-- One host's fault thus costs one try per delay and stops no other. May be repeated.
--@include clock
--@include fence

if not owns(KEYS[2], ARGV[2], ARGV[3]) then
  return -1
end
local due = now_us() + tonumber(ARGV[4])
for i = 6, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('ZADD', KEYS[1], due, ARGV[i])
    redis.call('HSET', ARGV[1] .. 'host:' .. ARGV[i], 'issue_fault', ARGV[5])
  end
end
return 1
