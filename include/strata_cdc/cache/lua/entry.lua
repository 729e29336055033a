-- What readers' scripts begin with. KEYS: state, entry. ARGV: history, shape, the shape's word, ...
-- Returns the state as a table, or nil and why nothing may be read or filled, and, where it is known, what had been
-- invalidated.
local function open_state()
  local found = redis.call('HMGET', KEYS[1], 'epoch', 'format', 'history', 'shape:' .. ARGV[2], 'server', 'checkpoint',
    'at', 'since:' .. ARGV[2])
  if not found[1] then return nil, 'cold' end
  if found[2] ~= FORMAT then return nil, 'format' end
  if found[3] ~= ARGV[1] then return nil, 'history' end
  if found[5] ~= here() then return nil, 'moved', found[6] end
  if found[4] ~= ARGV[3] then return nil, 'shape', found[6] end
  return { epoch = found[1], checkpoint = found[6], at = found[7], since = tonumber(found[8] or '0') }
end

-- The entry, if it is of this epoch, and its shape has not been invalidated as a whole since.
local function open_entry(state)
  local found = redis.call('HMGET', KEYS[2], 'epoch', 'at', 'token', 'value')
  if found[1] ~= state.epoch or tonumber(found[2]) < state.since then return nil end
  return { token = found[3], value = found[4] }
end
