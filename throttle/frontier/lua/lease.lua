-- lease: takes, renews or gives up the right to work on a partition in one role.
--
-- KEYS  1 lease
-- ARGV  1 holder (unique per process)  2 time to live (us)  3 'take' | 'leave'
-- Reply {epoch, '1' if the epoch is new, holder} with epoch '0' when another holder has it
--
-- Every change of holder raises the epoch; scripts of a holder check it, so that one which was
-- paused and revived can do nothing. May be repeated.
--@include clock

local lease, holder, ttl_us = KEYS[1], ARGV[1], tonumber(ARGV[2])
local now = now_us()
local held = redis.call('HMGET', lease, 'holder', 'epoch', 'until_us')
local until_us = tonumber(held[3]) or 0
if ARGV[3] == 'leave' then
  if held[1] == holder then
    redis.call('HSET', lease, 'holder', '', 'until_us', 0)
  end
  return {'0', '0', ''}
end
if held[1] == holder then
  redis.call('HSET', lease, 'until_us', now + ttl_us)
  return {held[2], '0', holder}
end
if held[1] and held[1] ~= '' and until_us > now then
  return {'0', '0', held[1]}
end
local epoch = string.format('%d', (tonumber(held[2]) or 0) + 1)
redis.call('HSET', lease, 'holder', holder, 'epoch', epoch, 'until_us', now + ttl_us)
return {epoch, '1', holder}
