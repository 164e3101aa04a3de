-- audit: counts a partition's URLs where they lie, beside the counters kept along the way.
--
-- KEYS  1 grants  2 totals  3 hosts
-- ARGV  1 prefix
-- Reply {rows, faults}: rows flat name, number: accepted done refused dead (counters), waiting
--       delayed in_flight (counted where they lie); faults: one line per counter that disagrees
--
-- One moment of the whole partition, so its time grows with its hosts (about 10 us each).
-- Reading only; may be repeated.
--@include host

local grants, totals, hosts, prefix = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local faults = {}

local function compare(what, counter, counted)
  if counter ~= counted then
    faults[#faults + 1] = what .. ': counter ' .. tostring(counter) .. ', counted ' .. tostring(counted)
  end
end

local slots, unsent, pages = {}, {}, 0
for _, id in ipairs(redis.call('ZRANGE', grants, 0, -1)) do
  local grant = redis.call('HMGET', prefix .. 'grant:' .. id, 'key', 'kind', 'sent')
  if not grant[1] then
    faults[#faults + 1] = 'grant ' .. id .. ' has no record'
  else
    slots[grant[1]] = (slots[grant[1]] or 0) + 1
    if not grant[3] then
      unsent[grant[1]] = (unsent[grant[1]] or 0) + 1
    end
    if grant[2] == 'page' then
      pages = pages + 1
    end
  end
end

local waiting, delayed = 0, 0
for _, key in ipairs(redis.call('SMEMBERS', hosts)) do
  local host = host_load(prefix, key)
  local here = 0
  for _, origin in ipairs(redis.call('LRANGE', prefix .. 'lanes:' .. key, 0, -1)) do
    here = here + redis.call('LLEN', prefix .. 'urls:' .. origin)
  end
  local later = redis.call('ZCARD', prefix .. 'delayed:' .. key)
  compare(key .. ' waiting', host.waiting, here)
  compare(key .. ' delayed', host.delayed, later)
  compare(key .. ' in flight', host.in_flight, slots[key] or 0)
  local seen = redis.call('SCARD', prefix .. 'seen:' .. key)
  if seen > 0 then
    compare(key .. ' accepted', host.accepted, seen)
  end
  compare(key .. ' unsent', host.unsent, unsent[key] or 0)
  waiting, delayed = waiting + here, delayed + later
end

local names = {'accepted', 'done', 'refused', 'dead', 'waiting', 'delayed', 'in_flight'}
local counters = redis.call('HMGET', totals, unpack(names))
for i = 1, #names do
  counters[i] = tonumber(counters[i]) or 0
end
compare('waiting', counters[5], waiting)
compare('delayed', counters[6], delayed)
compare('in flight', counters[7], pages)
local rows = {}
local found = {counters[1], counters[2], counters[3], counters[4], waiting, delayed, pages}
for i, name in ipairs(names) do
  rows[2 * i - 1], rows[2 * i] = name, found[i]
end
return {rows, faults}
