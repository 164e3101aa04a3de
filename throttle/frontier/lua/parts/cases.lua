-- Opens a case for a person to look at: one per host and kind, however often it happens.
local function case_open(prefix, kind, key, text)
  redis.call('HSETNX', prefix .. 'cases', kind .. ' ' .. key, text)
end
