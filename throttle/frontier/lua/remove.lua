-- remove: takes a host out, with its URLs and its seen set; its clock, block and breaker are kept
-- until they have opened, and that it refuses us until its case is closed.
--
-- KEYS  1 ready  2 refill  3 totals  4 hosts
-- ARGV  1 prefix  2 key
-- Reply {'removed', URLs dropped} | {'busy', grants open: pause the host and wait} | {'unknown'}
--
-- URLs that had not come to an end are no longer counted as accepted. Atomic; may be repeated.
--@include clock
--@include host
--@include seen

local ready, refill, totals, hosts, prefix, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2]
if redis.call('SISMEMBER', hosts, key) == 0 then
  return {'unknown'}
end
local now = now_us()
local host = host_load(prefix, key)
if host.in_flight > 0 then
  return {'busy', host.in_flight}
end
local kept = redis.call('HMGET', host.record, 'refused', 'opened', 'pace')
for _, origin in ipairs(redis.call('LRANGE', prefix .. 'lanes:' .. key, 0, -1)) do
  redis.call('DEL', prefix .. 'urls:' .. origin)
end
for _, name in ipairs({'lanes', 'delayed', 'chase', 'origins', 'robots', 'refused', 'dead', 'host'}) do
  redis.call('DEL', prefix .. name .. ':' .. key)
end
if kept[1] == '1' then
  redis.call('HSET', host.record, 'refused', '1')
end
if kept[2] then
  redis.call('HSET', host.record, 'opened', kept[2], 'pace', kept[3])
end
seen_drop(prefix, key, host.accepted)
redis.call('ZREM', ready, key)
redis.call('ZREM', refill, key)
redis.call('SREM', hosts, key)
local opens = math.max(host.tat_us, host.block_us, host.breaker_us)
if opens > now then
  local clocks = {whole(host.tat_us), whole(host.block_us), whole(host.breaker_us)}
  redis.call('SET', prefix .. 'clock:' .. key, table.concat(clocks, ' '),
             'PX', math.ceil((opens - now) / 1000) + 1000)
end
redis.call('HINCRBY', totals, 'accepted', 0 - host.waiting - host.delayed)
redis.call('HINCRBY', totals, 'waiting', 0 - host.waiting)
redis.call('HINCRBY', totals, 'delayed', 0 - host.delayed)
return {'removed', host.waiting + host.delayed}
