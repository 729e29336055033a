-- Begins an epoch: from here on nothing that the cache held counts.
-- KEYS: state, log. ARGV: what the checkpoint has to be ('' for none), history, epoch, checkpoint, owner, log
if (redis.call('HGET', KEYS[1], 'checkpoint') or '') ~= ARGV[1] then return { 'overtaken' } end
local records = redis.call('HGET', KEYS[1], 'records') or '0'
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'format', FORMAT, 'history', ARGV[2], 'epoch', ARGV[3], 'server', here(),
  'checkpoint', ARGV[4], 'owner', ARGV[5], 'at', '0', 'log', ARGV[6], 'records', records)
note(KEYS[1], 'kind', 'begin', 'epoch', ARGV[3], 'checkpoint', ARGV[4])
return { 'done' }
