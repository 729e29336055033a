-- KEYS: state, entry. ARGV: history, shape, word, GTID set that the value has to hold ('' for any), milliseconds of a mark
-- Where there is no entry a mark is left: what is invalidated from here on meets it, whoever fills it.
local state, why, checkpoint = open_state()
if not state then return { why, checkpoint or '' } end
local entry = open_entry(state)
if entry then
  -- All in the checkpoint has been invalidated: what is still there holds it, as far as this key goes.
  if entry.value and (ARGV[4] == '' or within(ARGV[4], entry.token) or within(ARGV[4], state.checkpoint)) then
    return { 'hit', entry.value, entry.token }
  end
  return { 'miss', entry.token }
end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'epoch', state.epoch, 'at', state.at, 'token', state.checkpoint)
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return { 'miss', state.checkpoint }
