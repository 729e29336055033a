-- GTID sets in MySQL's text: UUID[:TAG]:FIRST[-LAST][:...],... as Python writes them: sorted, disjoint, without blanks.
-- Positions in MariaDB's text: DOMAIN-SERVER-NEWEST,... which has each number of the domain up to the newest.
-- A number of Lua is exact up to 2^53; Python refuses larger ones.
local function spans_of(text)
  local found = {}
  for part in string.gmatch(text, '[^,]+') do
    local domain, newest = string.match(part, '^(%d+)%-%d+%-(%d+)$')
    if domain then found[domain] = { { 1, tonumber(newest) } } end
    local uuid, rest = string.match(part, '^([^:]+):(.+)$')
    local spans = uuid and found[uuid] or {}
    if uuid then found[uuid] = spans end
    for piece in string.gmatch(rest or '', '[^:]+') do
      local first, last = string.match(piece, '^(%d+)%-?(%d*)$')
      if first then
        spans[#spans + 1] = { tonumber(first), tonumber(last) or tonumber(first) }
      else
        spans = {}
        found[uuid .. ':' .. piece] = spans
      end
    end
  end
  return found
end

-- Whether each span of `inner` lies within one of `outer`; both ascend and have no neighbours that touch.
local function covers(outer, inner)
  local at = 1
  for _, span in ipairs(inner) do
    while outer[at] and outer[at][2] < span[2] do at = at + 1 end
    if not outer[at] or outer[at][1] > span[1] then return false end
  end
  return true
end

-- Whether the set `outer` holds all of the set `inner`. Anything else is "not provably", which is false.
local function within(inner, outer)
  if inner == outer or inner == '' then return true end
  local its = spans_of(outer)
  for sid, spans in pairs(spans_of(inner)) do
    if #spans > 0 and not covers(its[sid] or {}, spans) then return false end
  end
  return true
end
