-- Telling a sleeper that the head of its sorted set came nearer than it knows.
local function head_us(zset)
  local first = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  return tonumber(first[2]) or math.huge
end

local function wake_if_sooner(zset, before_us, channel)
  if head_us(zset) < before_us then
    redis.call('PUBLISH', channel, '')
  end
end
