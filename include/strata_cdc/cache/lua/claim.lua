-- An invalidator goes on with the epoch that is there. With other shapes than the one before it all shapes are closed.
-- KEYS: state, log. ARGV: owner, log
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  local at = redis.call('HINCRBY', KEYS[1], 'at', 1)
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local name = string.match(field, '^shape:(.+)$')
    if name then
      redis.call('HDEL', KEYS[1], field)
      redis.call('HSET', KEYS[1], 'since:' .. name, at)
      note(KEYS[1], 'kind', 'shape', 'shape', name)
    end
  end
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'log', ARGV[2])
return { 'done' }
