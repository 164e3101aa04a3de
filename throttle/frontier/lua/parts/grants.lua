-- Closing a grant: its slot is freed, its record is gone. The caller decides where the URL goes.
-- Needs host.lua and lanes.lua.
local function grant_load(prefix, id)
  local values = redis.call('HMGET', prefix .. 'grant:' .. id, 'key', 'kind', 'entry', 'state',
                            'request', 'sent', 'epoch', 'chase', 'worker')
  if not values[1] then
    return nil
  end
  return {
    id = id, key = values[1], kind = values[2], entry = values[3], state = values[4],
    request = values[5], sent = values[6] == '1', epoch = values[7], chase = values[8] == '1',
    worker = values[9],
  }
end

local function grant_close(grants, totals, host, grant)
  redis.call('DEL', host.prefix .. 'grant:' .. grant.id)
  redis.call('ZREM', grants, grant.id)
  host.in_flight = host.in_flight - 1
  if not grant.sent then
    host.unsent = host.unsent - 1
    if grant.state == 'started' then
      host.pending = host.pending - 1
    end
  end
  if grant.kind == 'page' then
    redis.call('HINCRBY', totals, 'in_flight', -1)
  end
end

-- What a grant was for goes back to where the claim took it from: a page to the head of its lane,
-- a robots.txt redirect to its list, a robots.txt to being unasked.
local function grant_give_back(totals, host, grant, entry)
  if grant.kind == 'page' then
    lane_push(host, entry, true)
    redis.call('HINCRBY', totals, 'waiting', 1)
  elseif grant.chase then
    chase_push(host, entry, true)
  else
    local origins = host.prefix .. 'origins:' .. host.key
    local origin = lane_of(entry)
    local record = redis.call('HGET', origins, origin) or ''
    local rest = string.match(record, '^asked %d+ (.*)$')
    if rest then
      redis.call('HSET', origins, origin, 'asked 0 ' .. rest)
      host.hold_us = 0
    end
  end
end

-- A robots.txt whose worker was lost may be what killed it: it is asked again after 30 s, doubled
-- for each failure in a row up to an hour, as one that cannot be had.
local function robots_lost(totals, host, entry, now)
  local origins, origin = host.prefix .. 'origins:' .. host.key, lane_of(entry)
  local record = redis.call('HGET', origins, origin) or ''
  local failures, rest = string.match(record, '^asked %d+ (%d+) (.*)$')
  if failures then
    local pause_us = math.min(30 * 2 ^ math.min(tonumber(failures), 30), 3600) * 1000000
    redis.call('HSET', origins, origin, table.concat(
      {'unreachable', whole(now + pause_us), whole(tonumber(failures) + 1), rest}, ' '))
    redis.call('HSET', host.record, 'robots_fault', 'its worker was lost')
    redis.call('HINCRBY', totals, 'robots:unreachable', 1)
    host.hold_us = 0
  end
end

-- A grant that ends without its URL being fetched to an end, after a start that came to nothing:
-- one more try, or the end: `dead` for a page, dropped for a robots.txt redirect, whose origin is
-- asked anew when its time is up. Its request may have reached the wire at any time until now.
local function grant_lost(grants, totals, host, grant, now, max_tries)
  if not grant.sent then
    clock_advance(host, now)
  end
  grant_close(grants, totals, host, grant)
  local entry = once_more(grant.entry)
  local tries = tonumber(string.match(entry, '^%d+'))
  if grant.kind == 'page' and tries >= max_tries then
    redis.call('HINCRBY', totals, 'dead', 1)
    redis.call('HINCRBY', host.record, 'ended:dead', 1)
    redis.call('HINCRBY', totals, 'out:worker lost', 1)
    redis.call('RPUSH', host.prefix .. 'dead:' .. host.key, 'worker lost\n' .. entry)
  elseif grant.kind == 'page' or grant.chase then
    if grant.kind == 'page' or tries < max_tries then
      grant_give_back(totals, host, grant, entry)
    end
  else
    robots_lost(totals, host, grant.entry, now)
  end
end
