-- The seen set of a host: which of its URLs were accepted before.
--
-- Exact: `seen:<key>` is a set of digests. Bloom: filters `bloom:<key>:<number>`, strings of bits,
-- each for twice as many URLs as the one before and with half its share of the error rate, so that
-- all of them together have half the rate at most, however many URLs come: the other half is for
-- filters that chance has filled worse than the mean. `accepted`, the number of URLs in
-- it, tells which filter is being filled. A mark is what seen.py makes of a URL: 16 bytes, or as
-- many hashes of 4 bytes as a filter can need.
local FIRST, LAST_DOUBLING, LARGE = 64, 20, 1024 * 1024

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

-- The bits and hashes of filter `number`; the last filters are as large as a string can be.
local function filter_shape(rate, number)
  local doublings = math.min(number, LAST_DOUBLING)
  local ln_error = math.log(rate) - (doublings + 2) * math.log(2)
  return math.ceil(FIRST * 2 ^ doublings * -ln_error / math.log(2) ^ 2),
         math.ceil(-ln_error / math.log(2))
end

local function place_of(mark, hash, bits)
  return math.floor(struct.unpack('>I4', mark, 4 * hash - 3) / 4294967296 * bits)
end

local function filter_has(name, mark, bits, hashes)
  for hash = 1, hashes do
    if redis.call('GETBIT', name, place_of(mark, hash, bits)) == 0 then
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
    if filter_has(filter_key(prefix, key, number), mark, filter_shape(rate, number)) then
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
  local name = filter_key(prefix, key, number)
  local bits, hashes = filter_shape(rate, number)
  if redis.call('EXISTS', name) == 0 then
    -- Made at once in its full size: a string that grows takes twice the room it needs.
    if bits < 8 * LARGE then
      redis.call('SET', name, string.rep('\0', math.ceil(bits / 8)))
    else
      redis.call('SETBIT', name, bits - 1, 0)
    end
  end
  -- One command for all bits: each would be one more line in the append-only file.
  local sets = {}
  for hash = 1, hashes do
    local n = #sets
    sets[n + 1], sets[n + 2] = 'SET', 'u1'
    sets[n + 3], sets[n + 4] = place_of(mark, hash, bits), 1
  end
  redis.call('BITFIELD', name, unpack(sets))
end

-- Freed in the background: a large set takes milliseconds.
local function seen_drop(prefix, key, accepted)
  redis.call('UNLINK', prefix .. 'seen:' .. key)
  for number = 0, filter_of(accepted) do
    redis.call('UNLINK', filter_key(prefix, key, number))
  end
end
