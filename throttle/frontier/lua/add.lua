-- add: accepts URLs into the frontier: seen test, depth bound, push, schedule, all or nothing.
--
-- KEYS  1 ready  2 refill  3 totals  4 hosts
-- ARGV  1 prefix of the partition's keys (host keys under it are derived: one hash tag)
--       2 depth bound (URLs waiting and delayed per host)
--       then per URL: key, entry, digest (16 bytes), '1' if only known hosts are accepted
-- Reply one word per URL: added | seen | full | outside | error
--
-- Atomic: a URL is pushed first and marked seen after, so a cut leaves it queued twice at worst,
-- never seen and not queued. May be repeated: the second time answers `seen`.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes

local ready, refill, totals, hosts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, bound = ARGV[1], tonumber(ARGV[2])
local now = now_us()
local ready_before, refill_before = head_us(ready), head_us(refill)
local touched, answers, added = {}, {}, 0

local function push_checked(host, entry)
  local origin = lane_of(entry)
  local list = redis.call('TYPE', prefix .. 'urls:' .. origin).ok
  local lanes = redis.call('TYPE', prefix .. 'lanes:' .. host.key).ok
  local seen = redis.call('TYPE', prefix .. 'seen:' .. host.key).ok
  if (list ~= 'list' and list ~= 'none') or (lanes ~= 'list' and lanes ~= 'none')
     or (seen ~= 'set' and seen ~= 'none') then
    return false
  end
  lane_push(host, entry, false)
  return true
end

local function host_of(key)
  if touched[key] == nil then
    local kind = redis.call('TYPE', prefix .. 'host:' .. key).ok
    touched[key] = (kind == 'hash' or kind == 'none') and host_load(prefix, key)
  end
  return touched[key]
end

-- Every host is read before the first write: one without a policy fails the call as a whole.
for i = 3, #ARGV, 4 do
  host_of(ARGV[i])
end

for i = 3, #ARGV, 4 do
  local key, entry, digest, only_known = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3] == '1'
  local host = host_of(key)
  local answer
  if not host then
    answer = 'error'
  elseif only_known and not host.known then
    answer = 'outside'
  elseif redis.call('TYPE', prefix .. 'seen:' .. key).ok == 'set'
         and redis.call('SISMEMBER', prefix .. 'seen:' .. key, digest) == 1 then
    answer = 'seen'
  elseif host.waiting + host.delayed >= bound then
    answer = 'full'
    redis.call('HINCRBY', totals, 'full', 1)
    redis.call('HINCRBY', host.record, 'full', 1)
  elseif not push_checked(host, entry) then
    answer = 'error'
  else
    redis.call('SADD', prefix .. 'seen:' .. key, digest)
    host.changed = true
    if not host.known then
      host.known = true
      redis.call('HSET', host.record, 'known', '1')
    end
    added = added + 1
    answer = 'added'
  end
  answers[#answers + 1] = answer
end

if added > 0 then
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
