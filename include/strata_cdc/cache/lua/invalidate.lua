-- KEYS: state, entries..., log. ARGV: checkpoint that is there, checkpoint then, owner, '1' to take this server for
-- caught up, milliseconds that a mark stays, number of shapes, their names, number of words, (NAME, WORD or '')..., and for each
-- entry the GTIDs that have changed it.
local state = KEYS[1]
local known = redis.call('HMGET', state, 'checkpoint', 'owner', 'epoch', 'server')
if not known[1] then return { 'lost' } end
if known[1] ~= ARGV[1] then return { 'overtaken', known[1] } end
if known[2] ~= ARGV[3] then return { 'owned' } end
local argument, whole, dropped, kept = 7, {}, 0, 0

local function close(name)
  redis.call('HSET', state, 'since:' .. name, redis.call('HINCRBY', state, 'at', 1))
  whole[#whole + 1] = name
end

for _ = 1, tonumber(ARGV[6]) do
  close(ARGV[argument])
  argument = argument + 1
end
local words = tonumber(ARGV[argument])
for at = argument + 1, argument + 2 * words, 2 do
  local name, word = ARGV[at], ARGV[at + 1]
  if (redis.call('HGET', state, 'shape:' .. name) or '') ~= word then
    close(name)
    if word == '' then redis.call('HDEL', state, 'shape:' .. name)
    else redis.call('HSET', state, 'shape:' .. name, word) end
  end
end
argument = argument + 2 * words

local said = {}
for at = 2, #KEYS - 1 do
  local gtids, what = ARGV[argument + at - 1], 'absent'
  local entry = redis.call('HMGET', KEYS[at], 'epoch', 'token', 'value')
  if entry[1] then
    if entry[1] == known[3] and entry[3] and within(gtids, entry[2]) then
      -- The value was read from a server that had executed them.
      what, kept = 'kept', kept + 1
    elseif entry[1] ~= known[3] then
      redis.call('DEL', KEYS[at])
    else
      -- `at` of the entry stays: a mark of a shape that was closed since is as little as none.
      if entry[3] then
        redis.call('HDEL', KEYS[at], 'value')
        dropped = dropped + 1
      end
      what = 'dropped'
      redis.call('HSET', KEYS[at], 'token', ARGV[2])
      redis.call('PEXPIRE', KEYS[at], ARGV[5])
    end
  end
  said[#said + 1] = what .. ' ' .. KEYS[at]
end
redis.call('HSET', state, 'checkpoint', ARGV[2])
if ARGV[4] == '1' then redis.call('HSET', state, 'server', here()) end
if #said > 0 or #whole > 0 then
  note(state, 'kind', 'invalidate', 'before', ARGV[1], 'checkpoint', ARGV[2], 'shapes', table.concat(whole, '\n'),
    'entries', table.concat(said, '\n'))
end
local caught_up = ARGV[4] == '1' or known[4] == here()
return { 'done', caught_up and 1 or 0, dropped, kept }
