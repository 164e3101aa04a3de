-- Whether `holder` with `epoch` still owns the partition: a revived holder carries an old epoch.
local function owns(lease_key, holder, epoch)
  local held = redis.call('HMGET', lease_key, 'holder', 'epoch')
  return held[1] == holder and held[2] == epoch
end
