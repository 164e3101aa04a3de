-- show: one host as it stands at one moment.
--
-- KEYS  1 ready  2 refill
-- ARGV  1 prefix  2 key
-- Reply flat name, text: the record's fields, the policy in force, default_us, now_us, clock_us (when its clock
--       opens), ready_us, refill_us, next_delayed_us ('' for none), and 'origin <origin>' with the
--       robots record of each origin
--
-- Reading only; may be repeated.
--@include clock
--@include host

local prefix, key = ARGV[1], ARGV[2]
local now = now_us()
local host = host_load(prefix, key)
local shown = redis.call('HGETALL', host.record)

local function say(name, value)
  shown[#shown + 1] = name
  shown[#shown + 1] = value and (type(value) == 'number' and whole(value) or value) or ''
end

local default = redis.call('HGET', prefix .. 'defaults', 'interval_us')
say('default_us', default)
say('interval_us', host.interval_us)
say('burst', host.burst)
say('concurrency', host.concurrency)
say('now_us', now)
say('clock_us', math.max(0, clock_opens_us(host, host.unsent, now)))
say('ready_us', redis.call('ZSCORE', KEYS[1], key))
say('refill_us', redis.call('ZSCORE', KEYS[2], key))
say('next_delayed_us', redis.call('ZRANGE', prefix .. 'delayed:' .. key, 0, 0, 'WITHSCORES')[2])
local origins = redis.call('HGETALL', prefix .. 'origins:' .. key)
for i = 1, #origins, 2 do
  say('origin ' .. origins[i], origins[i + 1])
end
return shown
