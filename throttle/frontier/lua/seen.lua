-- seen: which URLs the frontier would answer `seen`.
--
-- KEYS  1 hosts
-- ARGV  1 prefix  2 kind of the seen set  then per URL: key, mark
-- Reply per URL 1 (accepted before) or 0
--
-- Reading only; may be repeated.
--@include seen

local prefix, rate = ARGV[1], seen_rate(ARGV[2])
local answers = {}
for i = 3, #ARGV, 2 do
  local key = ARGV[i]
  local accepted = tonumber(redis.call('HGET', prefix .. 'host:' .. key, 'accepted') or 0)
  local has = seen_is_sound(prefix, key, rate, accepted)
              and seen_has(prefix, key, rate, accepted, ARGV[i + 1])
  answers[#answers + 1] = has and 1 or 0
end
return answers
