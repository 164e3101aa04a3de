-- The lanes of a host: one list of entries per origin, since robots.txt is an origin's
-- (RFC 9309 section 2.3); `lanes:<key>` lists the origins that have entries, in turn.
-- An entry is `tries depth hops url` (for robots.txt with ` origin` behind it).
local function lane_of(entry)
  return string.match(entry, '^%d+ %d+ %d+ (%a+://[^/%s]+)')
end

local function lane_push(host, entry, at_head)
  local origin = lane_of(entry)
  local length = redis.call(at_head and 'LPUSH' or 'RPUSH', host.prefix .. 'urls:' .. origin, entry)
  if length == 1 then
    redis.call('RPUSH', host.prefix .. 'lanes:' .. host.key, origin)
    host.hold_us = 0
  end
  host.waiting = host.waiting + 1
end

local function once_more(entry)
  local tries, rest = string.match(entry, '^(%d+) (.*)$')
  return string.format('%d %s', tonumber(tries) + 1, rest)
end
