-- block: nothing of a host starts before a moment, from when this returns.
--
-- KEYS  1 ready
-- ARGV  1 prefix  2 key  3 until (us of Redis time; '' with 4)  4 for (us from now; '' with 3)
-- Reply {until (us)}: the later of this block and one that stood, or {} for an unknown host
--
-- A block is only extended: `unblock` takes it away. Atomic; may be repeated.
--@include clock
--@include host
--@include reschedule

local ready, prefix, key = KEYS[1], ARGV[1], ARGV[2]
local now = now_us()
local host = host_load(prefix, key)
if host.is_new then
  return {}
end
local until_us = tonumber(ARGV[3]) or now + tonumber(ARGV[4])
block_extend(host, until_us, 'operator')
reschedule(ready, host, now)
return {host.block_us}
