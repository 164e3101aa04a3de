-- finish: closes a started grant with what became of its URL and of its host's pace.
--
-- KEYS  1 ready  2 refill  3 grants  4 totals
-- ARGV  1 prefix  2 grant id  3 request id  4 wire time (us, at the latest; '' nothing was sent)
--       5 end: done | refused | dead | again | back (not counted as a try)
--       6 outcome's name  7 reason (one line)  8 delay of the URL (us, with again and back)
--       9 pace that the decision was made from  10 pace decided ('' none: 9 and 11 to 14 unused)
--       11 block (us from now, 0 none)  12 breaker open (us from now, 0 no)  13 openings of the
--       breaker since it was closed  14 '1' stop the host: a refusal of us
--       15 kind of the case to open ('' none)  16 its text  17 cause of the block ('' with 0)
-- Reply {'finished'}
--       {'stale'}           the grant is over, or belongs to another request: nothing changed
--       {'conflict', pace}  another answer changed the pace meanwhile: decide again from this one
--
-- Atomic: slot, clock, pace and URL change together. It begins with a deletion, so that it works on
-- a full Redis, too. May be repeated: the second time is stale.
--@include clock
--@include wake
--@include host
--@include reschedule
--@include lanes
--@include grants
--@include cases

local ready, refill, grants, totals = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, wire, ending, name, reason = ARGV[1], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local delay_us = tonumber(ARGV[8])
local grant = grant_load(prefix, ARGV[2])
if not grant or grant.state ~= 'started' or grant.request ~= ARGV[3] then
  return {'stale'}
end
local now = now_us()
local host = host_load(prefix, grant.key)
local pace = redis.call('HGET', host.record, 'pace') or ''
if ARGV[10] ~= '' and pace ~= ARGV[9] then
  return {'conflict', pace}
end
local ready_before, refill_before = head_us(ready), head_us(refill)

local function set_pace()
  redis.call('HSET', host.record, 'pace', ARGV[10])
  if tonumber(ARGV[11]) > 0 then
    block_extend(host, now + tonumber(ARGV[11]), ARGV[17])
  end
  if tonumber(ARGV[12]) > 0 then
    host.breaker_us = now + tonumber(ARGV[12])
  end
  if ARGV[13] == '0' then
    redis.call('HDEL', host.record, 'opened')
    host.concurrency = host.most_at_once
  else
    redis.call('HSET', host.record, 'opened', ARGV[13])
    host.concurrency = 1
  end
  if ARGV[14] == '1' then
    redis.call('HSET', host.record, 'refused', '1')
    host.stopped = true
  end
end

local function end_page()
  redis.call('HINCRBY', totals, ending, 1)
  redis.call('HINCRBY', host.record, 'ended:' .. ending, 1)
  if ending ~= 'done' then
    redis.call('RPUSH', prefix .. ending .. ':' .. grant.key, reason .. '\n' .. grant.entry)
  end
end

local function keep_page()
  local entry = ending == 'again' and once_more(grant.entry) or grant.entry
  if delay_us > 0 then
    redis.call('ZADD', prefix .. 'delayed:' .. grant.key, now + delay_us, entry)
    host.delayed = host.delayed + 1
    redis.call('HINCRBY', totals, 'delayed', 1)
  else
    -- What is put off goes behind the others: one page must not starve its host.
    lane_push(host, entry, false)
    redis.call('HINCRBY', totals, 'waiting', 1)
  end
end

grant_close(grants, totals, host, grant)
if not grant.sent then
  if wire ~= '' then
    clock_advance(host, tonumber(wire))
  elseif host.tokens < host.burst then
    -- Nothing reached the host: the token it cost is issued again at once.
    redis.call('ZADD', refill, now, grant.key)
  end
end
if ARGV[10] ~= '' then
  set_pace()
end
if ARGV[15] ~= '' then
  case_open(prefix, ARGV[15], grant.key, ARGV[16])
end
if grant.kind == 'page' then
  if ending == 'again' or ending == 'back' then
    keep_page()
  else
    end_page()
  end
  redis.call('HINCRBY', totals, 'out:' .. name, 1)
elseif ending == 'back' then
  grant_give_back(totals, host, grant, grant.entry)
end
reschedule(ready, host, now)
wake_if_sooner(ready, ready_before, prefix .. 'wake:dispatch')
wake_if_sooner(refill, refill_before, prefix .. 'wake:issue')
return {'finished'}
