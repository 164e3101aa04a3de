-- Redis's own time: the one clock of the frontier. Numbers stay integers below 2^53; they are
-- never joined to strings with `..`, which would round them.
local function now_us()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function whole(number)
  return string.format('%.0f', number)
end
