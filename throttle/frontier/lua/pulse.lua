-- pulse: a role of the service says that it just did its round.
--
-- KEYS  1 pulse
-- ARGV  1 role: issuer | dispatcher | worker
-- Reply 1
--
-- May be repeated.
--@include clock

redis.call('HSET', KEYS[1], ARGV[1], now_us())
return 1
