-- heartbeat: a worker says that it is alive; those silent for an hour are forgotten.
--
-- KEYS  1 workers
-- ARGV  1 worker
-- Reply 1
--
-- May be repeated.
--@include clock

local now = now_us()
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 3600 * 1000000)
return 1
