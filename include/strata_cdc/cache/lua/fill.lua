-- KEYS: state, entry, log. ARGV: history, shape, word, GTID set read before the query, V or N and the value,
-- milliseconds or 0
local state, why = open_state()
if not state then return { why } end
local entry = open_entry(state)
-- An entry that is not there may have been invalidated by all that is in the checkpoint.
local needed = entry and entry.token or state.checkpoint
if not within(needed, ARGV[4]) then return { 'older', needed } end
redis.call('HSET', KEYS[2], 'epoch', state.epoch, 'at', state.at, 'token', ARGV[4], 'value', ARGV[5])
if ARGV[6] == '0' then redis.call('PERSIST', KEYS[2]) else redis.call('PEXPIRE', KEYS[2], ARGV[6]) end
note(KEYS[1], 'kind', 'fill', 'entry', KEYS[2], 'token', ARGV[4])
return { 'filled' }
