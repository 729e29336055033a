-- The state of a cache, a hash:
--   format      number of this form
--   history     source and lineage whose tokens are in here
--   epoch       random; entries of another one are nothing
--   server      replication ID of the Redis that an invalidator has caught up with
--   checkpoint  GTID set: all of it has been invalidated here
--   owner       digest of the shapes that the invalidator serves
--   at          counts invalidations of whole shapes
--   shape:NAME  what a reader of the shape has to say, to be sure that he and the invalidator mean the same keys
--   since:NAME  `at` of the last invalidation of the whole shape
--   log         how many records the log keeps; records: how many there have been
-- An entry, a hash: epoch, at, token (a GTID set), and value (V or N and bytes) unless it is a mark.
local FORMAT = '2'

-- Changes when a replica is promoted, and when the server starts again: then writes may have been lost.
local function here()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end

-- The log is the last key of each script that writes to it.
local function note(state, ...)
  local kept = redis.call('HGET', state, 'log')
  if kept and kept ~= '0' then
    local number = redis.call('HINCRBY', state, 'records', 1)
    redis.call('XADD', KEYS[#KEYS], 'MAXLEN', '~', kept, '*', 'record', number, ...)
  end
end
