-- add: accepts URLs into the frontier: seen test, depth bound, push, schedule, all or nothing.
--
-- KEYS  1 ready  2 refill  3 totals  4 hosts
-- ARGV  1 prefix of the partition's keys (host keys under it are derived: one hash tag)
--       2 depth bound (URLs waiting and delayed per host)  3 most URLs accepted per host (0: any)
--       4 most origins per host  5 kind of the seen set
--       then per URL: key, entry, mark, '1' if only known hosts are accepted
-- Reply one word per URL: added | seen | outside | error | host_depth | host_pages | origins
--       (of the last three: the bound that is reached)
--
-- Atomic: a URL is pushed first and marked seen after, so a cut leaves it queued twice at worst,
-- never seen and not queued. May be repeated: the second time answers `seen`.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include seen

local ready, refill, totals, hosts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, bound, most_pages = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local most_origins, kind, rate = tonumber(ARGV[4]), ARGV[5], seen_rate(ARGV[5])
local FIRST_URL = 6
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local touched, answers, away, added = {}, {}, {}, 0

local begun = redis.call('HGET', prefix .. 'defaults', 'seen')
if begun and begun ~= kind then
  return redis.error_reply("ERR this crawl's seen set is " .. begun .. ', not ' .. kind
                           .. '; set THROTTLE_SEEN and THROTTLE_BLOOM_ERROR_RATE to that, or begin'
                           .. ' a new generation with throttlectl reset')
end

local function is_sound(host, origin)
  local list = redis.call('TYPE', prefix .. 'urls:' .. origin).ok
  local lanes = redis.call('TYPE', prefix .. 'lanes:' .. host.key).ok
  local origins = redis.call('TYPE', prefix .. 'origins:' .. host.key).ok
  return (list == 'list' or list == 'none') and (lanes == 'list' or lanes == 'none')
         and (origins == 'hash' or origins == 'none')
         and seen_is_sound(prefix, host.key, rate, host.accepted)
end

local function host_of(key)
  if touched[key] == nil then
    local type = redis.call('TYPE', prefix .. 'host:' .. key).ok
    touched[key] = (type == 'hash' or type == 'none') and host_load(prefix, key)
  end
  return touched[key]
end

-- Each origin has a robots.txt of its own: their number is bounded.
local function has_room_for(host, origin)
  local origins = prefix .. 'origins:' .. host.key
  return redis.call('HEXISTS', origins, origin) == 1 or redis.call('HLEN', origins) < most_origins
end

local function answer_to(host, origin, mark, only_known)
  if not host then
    return 'error'
  elseif only_known and not host.known then
    return 'outside'
  elseif not is_sound(host, origin) then
    return 'error'
  elseif seen_has(prefix, host.key, rate, host.accepted, mark) then
    return 'seen'
  elseif most_pages > 0 and host.accepted >= most_pages then
    return 'host_pages'
  elseif host.waiting + host.delayed >= bound then
    return 'host_depth'
  elseif not has_room_for(host, origin) then
    return 'origins'
  end
  return 'added'
end

local function accept(host, origin, entry, mark)
  lane_push(host, entry, false)
  redis.call('HSETNX', prefix .. 'origins:' .. host.key, origin, 'unknown 0 0 0 0')
  seen_put(prefix, host.key, rate, host.accepted, mark)
  host.accepted = host.accepted + 1
  host.changed = true
  if not host.known then
    host.known = true
    redis.call('HSET', host.record, 'known', '1')
  end
end

-- Every host is read before the first write: one without a policy fails the call as a whole.
for i = FIRST_URL, #ARGV, 4 do
  host_of(ARGV[i])
end

for i = FIRST_URL, #ARGV, 4 do
  local host, entry, mark = host_of(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local origin = lane_of(entry)
  local answer = answer_to(host, origin, mark, ARGV[i + 3] == '1')
  if answer == 'added' then
    accept(host, origin, entry, mark)
    added = added + 1
  elseif answer ~= 'seen' then
    away[answer] = (away[answer] or 0) + 1
    if answer ~= 'outside' and answer ~= 'error' then
      redis.call('HINCRBY', totals, 'full', 1)
      redis.call('HINCRBY', host.record, 'full', 1)
    end
  end
  answers[#answers + 1] = answer
end

for reason, count in pairs(away) do
  redis.call('HINCRBY', totals, 'away:' .. reason, count)
end
if added > 0 then
  redis.call('HSETNX', prefix .. 'defaults', 'seen', kind)
  redis.call('HINCRBY', totals, 'accepted', added)
  redis.call('HINCRBY', totals, 'waiting', added)
end
for _, host in pairs(touched) do
  if host and host.changed then
    redis.call('SADD', hosts, host.key)
    if host.tokens < 1 then
      redis.call('ZADD', refill, 'NX', now, host.key)
    end
    reschedule(ready, host, now)
  end
end
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return answers
