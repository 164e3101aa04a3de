-- budget: reserves room for URLs under the bound of the whole crawl, or gives room back.
--
-- KEYS  1 budget
-- ARGV  1 URLs wanted (negative: given back)  2 bound
-- Reply how many of the wanted may be accepted
--
-- One counter for all partitions, so that the bound is exact. Atomic. Not to be repeated blindly:
-- a lost reply costs room, never exceeds the bound.
local wanted, bound = tonumber(ARGV[1]), tonumber(ARGV[2])
local used = tonumber(redis.call('GET', KEYS[1]) or 0)
local given = math.min(wanted, math.max(0, bound - used))
redis.call('SET', KEYS[1], math.max(0, used + given))
return given
