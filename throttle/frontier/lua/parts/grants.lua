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
    redis.call('LPUSH', host.prefix .. 'chase:' .. host.key, entry)
    host.chase = host.chase + 1
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

-- A grant that ends without its URL being fetched to an end, after a start that came to nothing:
-- one more try, or the end `dead`. Its request may have reached the wire at any time until now.
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
  else
    grant_give_back(totals, host, grant, entry)
  end
end
