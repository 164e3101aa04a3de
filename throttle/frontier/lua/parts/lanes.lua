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

-- A redirected robots.txt that waits at this host: one per origin, whose newest redirect counts and
-- keeps the place of the older one; given back (`at_head`), it gives way to one that came meanwhile.
-- Whether it waits now: past `MOST_CHASES` it does not, and its origin is asked anew in its time.
local MOST_CHASES = 1000

local function chase_push(host, entry, at_head)
  local list, origin = host.prefix .. 'chase:' .. host.key, string.match(entry, '%S+$')
  local waiting = redis.call('LRANGE', list, 0, -1)
  for i, other in ipairs(waiting) do
    if string.match(other, '%S+$') == origin then
      if not at_head then
        redis.call('LSET', list, i - 1, entry)
      end
      return true
    end
  end
  if #waiting >= MOST_CHASES and not at_head then
    return false
  end
  host.chase = redis.call(at_head and 'LPUSH' or 'RPUSH', list, entry)
  return true
end

local function once_more(entry)
  local tries, rest = string.match(entry, '^(%d+) (.*)$')
  return string.format('%d %s', tonumber(tries) + 1, rest)
end
