-- The seen set of a host: which of its URLs were accepted before.
--
-- Exact: `seen:<key>` is a set of digests. Bloom: filters `bloom:<key>:<number>`, strings of bits,
-- each for twice as many URLs as the one before and with half its share of the error rate, so that
-- all of them together keep the rate however many URLs come. `accepted`, the number of URLs in
-- it, tells which filter is being filled. A mark is what seen.py makes of a URL: 16 bytes, or as
-- many hashes of 4 bytes as a filter can need.
local FIRST, LAST_DOUBLING = 64, 20

local function seen_rate(kind)
  return tonumber(string.match(kind, '^bloom (.+)$'))
end

local function filter_of(accepted)
  local number, room = 0, FIRST
  while accepted >= room do
    accepted = accepted - room
    number = number + 1
    room = FIRST * 2 ^ math.min(number, LAST_DOUBLING)
  end
  return number
end

local function filter_key(prefix, key, number)
  return string.format('%sbloom:%s:%d', prefix, key, number)
end

-- The places of a mark's bits in filter `number`; the last filters are as large as a string can be.
local function filter_places(rate, number, mark)
  local doublings = math.min(number, LAST_DOUBLING)
  local ln_error = math.log(rate) - (doublings + 1) * math.log(2)
  local bits = math.ceil(FIRST * 2 ^ doublings * -ln_error / math.log(2) ^ 2)
  local places = {}
  for i = 1, math.ceil(-ln_error / math.log(2)) do
    places[i] = math.floor(struct.unpack('>I4', mark, 4 * i - 3) / 4294967296 * bits)
  end
  return places
end

local function in_filter(name, places)
  for _, place in ipairs(places) do
    if redis.call('GETBIT', name, place) == 0 then
      return false
    end
  end
  return true
end

local function seen_is_sound(prefix, key, rate, accepted)
  if rate then
    local type = redis.call('TYPE', filter_key(prefix, key, filter_of(accepted))).ok
    return type == 'string' or type == 'none'
  end
  local type = redis.call('TYPE', prefix .. 'seen:' .. key).ok
  return type == 'set' or type == 'none'
end

local function seen_has(prefix, key, rate, accepted, mark)
  if not rate then
    return redis.call('SISMEMBER', prefix .. 'seen:' .. key, mark) == 1
  end
  for number = filter_of(accepted), 0, -1 do
    if in_filter(filter_key(prefix, key, number), filter_places(rate, number, mark)) then
      return true
    end
  end
  return false
end

local function seen_put(prefix, key, rate, accepted, mark)
  if not rate then
    redis.call('SADD', prefix .. 'seen:' .. key, mark)
    return
  end
  local number = filter_of(accepted)
  for _, place in ipairs(filter_places(rate, number, mark)) do
    redis.call('SETBIT', filter_key(prefix, key, number), place, 1)
  end
end

-- Freed in the background: a large set takes milliseconds.
local function seen_drop(prefix, key, accepted)
  redis.call('UNLINK', prefix .. 'seen:' .. key)
  for number = 0, filter_of(accepted) do
    redis.call('UNLINK', filter_key(prefix, key, number))
  end
end
