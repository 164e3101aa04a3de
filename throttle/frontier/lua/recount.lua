-- recount: the counters of a partition begin anew, with the URLs that have not come to an end.
--
-- KEYS  1 totals  2 grants
-- ARGV  1 prefix
-- Reply {'recounted'} | {'busy', grants open: nothing was changed}
--
-- The first step of a new generation: from then on the counters hold, whatever is reset or added.
-- The kind of the seen set may be chosen anew. Atomic; may be repeated.
local totals, open = KEYS[1], redis.call('ZCARD', KEYS[2])
if open > 0 then
  return {'busy', open}
end
local kept = redis.call('HMGET', totals, 'waiting', 'delayed')
local waiting, delayed = tonumber(kept[1]) or 0, tonumber(kept[2]) or 0
redis.call('DEL', totals)
redis.call('HSET', totals, 'accepted', waiting + delayed, 'waiting', waiting, 'delayed', delayed)
redis.call('HDEL', ARGV[1] .. 'defaults', 'seen')
return {'recounted'}
